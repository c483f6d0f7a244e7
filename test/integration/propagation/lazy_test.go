// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// lazily returns a lazy policy that sends Deployments to a cluster.
func lazily(name, cluster string) *policyv1alpha1.PropagationPolicy {
	p := policy(name, only(cluster))
	p.Spec.ActivationPreference = policyv1alpha1.LazyActivation
	return p
}

// by waits until the policy of a name claims an object.
func (w world) by(object client.Object, name string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s is claimed by %s", object.GetName(), name), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if is := object.GetAnnotations()[policyv1alpha1.AnnotationPropagationPolicyName]; is != name {
			return fmt.Errorf("it is claimed by %q", is)
		}
		return nil
	})
}

// touch changes a label of an object.
func (w world) touch(object client.Object, value string) {
	w.Helper()
	w.change(object, func() { object.SetLabels(map[string]string{"touched": value}) })
}

// TestALazyPolicyChangesNothingByItself has lazy policies come, change, go and take
// over from others. Only a change of the object brings what they say.
func TestALazyPolicyChangesNothingByItself(t *testing.T) {
	w := newWorld(t, 3)
	binding := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}}

	// It comes after the object.
	web, first := deployment("web", 1), lazily("first", "member1")
	w.create(web)
	w.create(first)
	w.by(web, "first")
	w.restart()
	w.create(deployment("other", 1)) // which comes after the policy
	w.on("other", map[string]int32{"member1": 1})
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding); client.IgnoreNotFound(err) != nil || err == nil {
		t.Fatalf("a lazy policy that came after the Deployment has bound it: %v", err)
	}
	w.touch(web, "1")
	w.on("web", map[string]int32{"member1": 1})
	w.by(web, "first")
	if at, is := web.Annotations["fleet.capstan.io/template"]; is {
		t.Errorf("the Deployment waits for nothing any more, and says that it does, as of %s", at)
	}

	// It is changed.
	w.change(first, func() { first.Spec.Placement = only("member2") })
	w.stays("web", "member1")
	w.touch(web, "2")
	w.on("web", map[string]int32{"member2": 1})

	// It goes, and another lazy one takes over.
	w.create(lazily("second", "member3"))
	if err := w.Delete(w.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.gone(first)
	w.by(web, "second")
	w.stays("web", "member2")
	w.touch(web, "3")
	w.on("web", map[string]int32{"member3": 1})
}

// TestAPolicyThatBecomesLazyChangesNothingByThat has a policy become lazy as it
// changes, and its object change at the same time.
func TestAPolicyThatBecomesLazyChangesNothingByThat(t *testing.T) {
	w := newWorld(t, 2)
	web, p := deployment("web", 1), policy("web", only("member1"))
	w.create(web, p)
	w.on("web", map[string]int32{"member1": 1})
	w.change(p, func() { p.Spec.Placement, p.Spec.ActivationPreference = only("member2"), policyv1alpha1.LazyActivation })
	w.stays("web", "member1")
	w.touch(web, "1")
	w.on("web", map[string]int32{"member2": 1})

	w.change(p, func() { p.Spec.Placement, p.Spec.ActivationPreference = only("member1"), "" })
	w.on("web", map[string]int32{"member1": 1})
	w.stop()
	w.change(p, func() { p.Spec.ActivationPreference = policyv1alpha1.LazyActivation })
	w.change(web, func() { web.Spec.Replicas = new(int32(2)) })
	w.start()
	w.on("web", map[string]int32{"member1": 2})
}

// TestALazyPolicyOfConfigMaps is about a kind that has no generation.
func TestALazyPolicyOfConfigMaps(t *testing.T) {
	w := newWorld(t, 1)
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "settings"}, Data: map[string]string{"key": "a"}}
	w.create(settings)
	p := lazily("settings", "member1")
	p.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "ConfigMap", Name: "settings"}
	w.create(p)
	w.by(settings, "settings")
	w.restart()
	w.create(deployment("web", 1), policy("web", only("member1")))
	w.on("web", map[string]int32{"member1": 1})
	w.works(1)
	w.change(settings, func() { settings.Data["key"] = "b" })
	w.works(2)
}

// restart starts the controllers anew.
func (w world) restart() {
	w.Helper()
	w.stop()
	w.start()
}

// stays checks that a Deployment stays on a cluster: what is decided for another
// Deployment after that is done.
func (w world) stays(name, cluster string) {
	w.Helper()
	witness := deployment("witness", 1)
	w.create(witness)
	w.eventually("another Deployment is bound", func() error {
		return w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "witness-deployment"}, &workv1alpha2.ResourceBinding{})
	})
	w.on(name, map[string]int32{cluster: 1})
	if err := w.Delete(w.Context(), witness); err != nil {
		w.Fatal(err)
	}
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "witness-deployment"}})
}
