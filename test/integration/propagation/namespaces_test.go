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
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestNamespacesGoToClusters is the story of a namespace: sent to the cluster that
// needs it, changed, overridden, sent to all clusters, and deleted.
func TestNamespacesGoToClusters(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}
	apart := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apart", Labels: map[string]string{policyv1alpha1.LabelSkipAutoPropagation: "true"}}}
	web, p := harness.Deployment("web", 1), harness.Policy("web", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}})
	web.Namespace, p.Namespace = "shop", "shop"
	w.CreateAll(shop, apart, web, p)
	w.SendsNamespace("shop", map[string]string{"member1": "a"})

	w.ChangeObject(shop, func() { shop.Labels["team"] = "b" })
	w.SendsNamespace("shop", map[string]string{"member1": "b"})

	w.CreateAll(&policyv1alpha1.ClusterOverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "teams"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Namespace"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{
				TargetCluster: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}},
				Overriders: policyv1alpha1.Overriders{LabelsOverrider: []policyv1alpha1.LabelAnnotationOverrider{
					{Operator: policyv1alpha1.OverriderOpReplace, Value: map[string]string{"team": "c"}},
				}},
			}},
		},
	})
	w.SendsNamespace("shop", map[string]string{"member1": "c"})

	w.StopControllers()
	w.Options.Gates, _ = features.ResolveGates(features.HubPlacement, map[string]bool{string(features.NamespaceSyncAll): true})
	w.StartControllers()
	w.SendsNamespace("shop", map[string]string{"member1": "c", "member2": "b"})
	w.JoinCluster("member3")
	w.SendsNamespace("shop", map[string]string{"member1": "c", "member2": "b", "member3": "b"})
	for _, name := range []string{"apart", "member1", metav1.NamespaceDefault, metav1.NamespaceSystem} {
		w.SendsNamespace(name, nil)
	}

	for _, object := range []client.Object{p, web} {
		if err := w.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	w.HasWorks(0)
	if err := w.Delete(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(shop), shop); err != nil {
		t.Fatal(err)
	}
	shop.Spec.Finalizers = nil // nobody else takes it off here
	if err := w.SubResource("finalize").Update(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	w.SendsNamespace("shop", nil)
}

// TestOverridesOfANamespaceFailInEachCluster has an override fail in two clusters: events
// name both.
func TestOverridesOfANamespaceFailInEachCluster(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	web, p := harness.Deployment("web", 1), harness.Policy("web", policyv1alpha1.Placement{})
	web.Namespace, p.Namespace = "shop", "shop"
	w.CreateAll(&policyv1alpha1.ClusterOverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "teams"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Namespace"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
				Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: "/nowhere/team", Operator: policyv1alpha1.OverriderOpReplace, Value: policyv1alpha1.JSON{Raw: []byte(`"a"`)}}},
			}}},
		},
	}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, web, p)
	for _, cluster := range []string{"member1", "member2"} {
		w.HasEventWith("shop", "ApplyOverridePolicyFailed", fmt.Sprintf("cluster %q: ", cluster))
	}
	w.SendsNamespace("shop", nil)
}
