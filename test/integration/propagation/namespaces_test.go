// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/server/features"
)

// TestNamespacesGoToClusters is the story of a namespace: sent to the cluster that
// needs it, changed, overridden, sent to all clusters, and deleted.
func TestNamespacesGoToClusters(t *testing.T) {
	w := newWorld(t, 2)
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "a"}}}
	apart := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apart", Labels: map[string]string{policyv1alpha1.LabelSkipAutoPropagation: "true"}}}
	web, p := deployment("web", 1), policy("web", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}})
	web.Namespace, p.Namespace = "shop", "shop"
	w.create(shop, apart, web, p)
	w.namespace("shop", map[string]string{"member1": "a"})

	w.change(shop, func() { shop.Labels["team"] = "b" })
	w.namespace("shop", map[string]string{"member1": "b"})

	w.create(&policyv1alpha1.ClusterOverridePolicy{
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
	w.namespace("shop", map[string]string{"member1": "c"})

	w.stop()
	w.options.Gates, _ = features.ResolveGates(features.HubPlacement, map[string]bool{string(features.NamespaceSyncAll): true})
	w.start()
	w.namespace("shop", map[string]string{"member1": "c", "member2": "b"})
	w.join("member3")
	w.namespace("shop", map[string]string{"member1": "c", "member2": "b", "member3": "b"})
	for _, name := range []string{"apart", "member1", metav1.NamespaceDefault, metav1.NamespaceSystem} {
		w.namespace(name, nil)
	}

	for _, object := range []client.Object{p, web} {
		if err := w.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	w.works(0)
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
	w.namespace("shop", nil)
}

// TestOverridesOfANamespaceFailInEachCluster has an override fail in two clusters: events
// name both.
func TestOverridesOfANamespaceFailInEachCluster(t *testing.T) {
	w := newWorld(t, 2)
	web, p := deployment("web", 1), policy("web", policyv1alpha1.Placement{})
	web.Namespace, p.Namespace = "shop", "shop"
	w.create(&policyv1alpha1.ClusterOverridePolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "teams"},
		Spec: policyv1alpha1.OverrideSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "Namespace"}},
			OverrideRules: []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{
				Plaintext: []policyv1alpha1.PlaintextOverrider{{Path: "/nowhere/team", Operator: policyv1alpha1.OverriderOpReplace, Value: policyv1alpha1.JSON{Raw: []byte(`"a"`)}}},
			}}},
		},
	}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, web, p)
	for _, cluster := range []string{"member1", "member2"} {
		w.noted("shop", "ApplyOverridePolicyFailed", fmt.Sprintf("cluster %q: ", cluster))
	}
	w.namespace("shop", nil)
}

// namespace waits until a namespace has been sent to these clusters, and to no
// others, with these values of label team.
func (w world) namespace(name string, teams map[string]string) {
	w.Helper()
	w.eventually(fmt.Sprintf("namespace %s is sent as %v", name, teams), func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.MatchingLabels{"fleet.capstan.io/namespace": name}); err != nil {
			return err
		}
		if len(works.Items) != len(teams) {
			return fmt.Errorf("there are %d works", len(works.Items))
		}
		for i := range works.Items {
			work, sent := &works.Items[i], &corev1.Namespace{}
			if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, sent); err != nil {
				return err
			}
			if want, is := teams[work.Namespace]; !is || sent.Labels["team"] != want {
				return fmt.Errorf("cluster %s has it with labels %v", work.Namespace, sent.Labels)
			}
			if id := work.Labels[workv1alpha2.LabelWorkID]; id == "" || sent.Labels[workv1alpha2.LabelWorkID] != id || sent.Labels[workv1alpha2.LabelManaged] != "true" {
				return errors.New("it does not say which work sent it")
			}
		}
		return nil
	})
}
