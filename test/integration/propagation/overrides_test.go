// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestAPolicyWaitsForOverrides has policies depend on override policies that come later:
// one on those of its namespace, of which one is there, and one on those of the hub. Events
// name each that is missing, also while the object stays as it is.
func TestAPolicyWaitsForOverrides(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	override := func(name string) *policyv1alpha1.OverridePolicy {
		return &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	}
	own := harness.Policy("own", policyv1alpha1.Placement{})
	own.Spec.ResourceSelectors[0].Name, own.Spec.DependentOverrides = "web", []string{"images", "ports", "labels"}
	wide := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: "wide", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-wide"},
		Finalizers: []string{policyv1alpha1.FinalizerClusterPropagationPolicy},
	}}
	wide.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "shop"}}
	wide.Spec.DependentOverrides = []string{"images"}
	waits := func(policy, missing string) {
		w.NamespaceHasEvent(metav1.NamespaceDefault, "ApplyPolicyFailed", fmt.Sprintf("policy %q waits for override policy %q (spec.dependentOverrides), which does not exist: create it", policy, missing))
	}
	w.CreateAll(override("images"), own, wide, harness.Deployment("web", 1), harness.Deployment("shop", 2))
	waits("own", "ports")
	waits("wide", "images")
	w.IsUnbound("web")
	w.IsUnbound("shop")

	w.CreateAll(&policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "images"}})
	w.RunsOn("shop", map[string]int32{"member1": 2})
	w.IsUnbound("web")
	w.CreateAll(override("ports"))
	waits("own", "labels")
	w.IsUnbound("web")
	w.CreateAll(override("labels"))
	w.RunsOn("web", map[string]int32{"member1": 1})
}
