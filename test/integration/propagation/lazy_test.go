// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// lazily returns a lazy policy that sends Deployments to a cluster.
func lazily(name, cluster string) *policyv1alpha1.PropagationPolicy {
	p := harness.Policy(name, only(cluster))
	p.Spec.ActivationPreference = policyv1alpha1.LazyActivation
	return p
}

// TestALazyPolicyChangesNothingByItself has lazy policies come, change, go and take
// over from others. Only a change of the object brings what they say.
func TestALazyPolicyChangesNothingByItself(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}}

	// It comes after the object.
	web, first := harness.Deployment("web", 1), lazily("first", "member1")
	w.CreateAll(web)
	w.CreateAll(first)
	w.ClaimedByPolicy(web, "first")
	w.RestartControllers()
	w.CreateAll(harness.Deployment("other", 1)) // which comes after the policy
	w.RunsOn("other", map[string]int32{"member1": 1})
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("a lazy policy that came after the Deployment has bound it: %v", err)
	}
	w.ChangeLabel(web, "1")
	w.RunsOn("web", map[string]int32{"member1": 1})
	w.ClaimedByPolicy(web, "first")
	if at, is := web.Annotations["fleet.capstan.io/template"]; is {
		t.Errorf("the Deployment waits for nothing any more, and says that it does, as of %s", at)
	}

	// It is changed.
	w.ChangeObject(first, func() { first.Spec.Placement = only("member2") })
	w.StaysOn("web", "member1")
	w.ChangeLabel(web, "2")
	w.RunsOn("web", map[string]int32{"member2": 1})

	// It goes, and another lazy one takes over.
	w.CreateAll(lazily("second", "member3"))
	if err := w.Delete(w.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.IsGone(first)
	w.ClaimedByPolicy(web, "second")
	w.StaysOn("web", "member2")
	w.ChangeLabel(web, "3")
	w.RunsOn("web", map[string]int32{"member3": 1})
}

// TestAPolicyThatBecomesLazyChangesNothingByThat has a policy become lazy as it
// changes, and its object change at the same time.
func TestAPolicyThatBecomesLazyChangesNothingByThat(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	web, p := harness.Deployment("web", 1), harness.Policy("web", only("member1"))
	w.CreateAll(web, p)
	w.RunsOn("web", map[string]int32{"member1": 1})
	w.ChangeObject(p, func() { p.Spec.Placement, p.Spec.ActivationPreference = only("member2"), policyv1alpha1.LazyActivation })
	w.StaysOn("web", "member1")
	w.ChangeLabel(web, "1")
	w.RunsOn("web", map[string]int32{"member2": 1})

	w.ChangeObject(p, func() { p.Spec.Placement, p.Spec.ActivationPreference = only("member1"), "" })
	w.RunsOn("web", map[string]int32{"member1": 1})
	w.StopControllers()
	w.ChangeObject(p, func() { p.Spec.ActivationPreference = policyv1alpha1.LazyActivation })
	w.ChangeObject(web, func() { web.Spec.Replicas = new(int32(2)) })
	w.StartControllers()
	w.RunsOn("web", map[string]int32{"member1": 2})
}

// TestALazyPolicyOfConfigMaps is about a kind that has no generation.
func TestALazyPolicyOfConfigMaps(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "settings"}, Data: map[string]string{"key": "a"}}
	w.CreateAll(settings)
	p := lazily("settings", "member1")
	p.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "settings"}
	w.CreateAll(p)
	w.ClaimedByPolicy(settings, "settings")
	w.RestartControllers()
	w.CreateAll(harness.Deployment("web", 1), harness.Policy("web", only("member1")))
	w.RunsOn("web", map[string]int32{"member1": 1})
	w.HasWorks(1)
	w.ChangeObject(settings, func() { settings.Data["key"] = "b" })
	w.HasWorks(2)
}
