// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// unbound fails if a Deployment of namespace default has a binding.
func (w world) unbound(name string) {
	w.Helper()
	binding := &workv1alpha2.ResourceBinding{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name + "-deployment"}, binding)
	if client.IgnoreNotFound(err) != nil || err == nil {
		w.Fatalf("Deployment %s is bound already: %v, %v", name, binding.Spec.Clusters, err)
	}
}

// TestAPolicyWaitsForOverrides has policies depend on override policies that come later:
// one on those of its namespace, of which one is there, and one on those of the hub. Events
// name each that is missing, also while the object stays as it is.
func TestAPolicyWaitsForOverrides(t *testing.T) {
	w := newWorld(t, 1)
	override := func(name string) *policyv1alpha1.OverridePolicy {
		return &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	}
	own := policy("own", policyv1alpha1.Placement{})
	own.Spec.ResourceSelectors[0].Name, own.Spec.DependentOverrides = "web", []string{"images", "ports", "labels"}
	wide := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: "wide", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-wide"},
		Finalizers: []string{policyv1alpha1.FinalizerClusterPropagationPolicy},
	}}
	wide.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"}}
	wide.Spec.DependentOverrides = []string{"images"}
	waits := func(policy, missing string) {
		w.told(metav1.NamespaceDefault, "ApplyPolicyFailed", fmt.Sprintf("policy %q waits for override policy %q (spec.dependentOverrides), which does not exist: create it", policy, missing))
	}
	w.create(override("images"), own, wide, deployment("web", 1), deployment("shop", 2))
	waits("own", "ports")
	waits("wide", "images")
	w.unbound("web")
	w.unbound("shop")

	w.create(&policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "images"}})
	w.on("shop", map[string]int32{"member1": 2})
	w.unbound("web")
	w.create(override("ports"))
	waits("own", "labels")
	w.unbound("web")
	w.create(override("labels"))
	w.on("web", map[string]int32{"member1": 1})
}
