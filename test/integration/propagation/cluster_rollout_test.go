// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestARolloutOfAClusterPropagationPolicy holds an object without a namespace and
// one with a namespace together, and lets both be undone.
func TestARolloutOfAClusterPropagationPolicy(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	web := harness.Deployment("web", 1)
	viewer := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, Rules: reading("pods")}
	wide := &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: "wide", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-wide"},
			Finalizers: []string{policyv1alpha1.FinalizerClusterPropagationPolicy},
		},
		Spec: policyv1alpha1.PropagationSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{
			{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "viewer"},
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: metav1.NamespaceDefault, Name: "web"},
		}},
	}
	r := &fleetv1alpha1.ClusterPropagationRollout{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: stages(nil).Spec}
	r.Spec.Policy.Name = "wide"
	w.CreateAll(viewer, web, wide)
	w.HasImages("web", "1 1.27 x1, 2 1.27 x1, 3 1.27 x1")
	w.SendsRoles("1 pods, 2 pods, 3 pods")
	w.CreateAll(r)
	w.ClusterRolloutIs(r, 2, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")

	w.SetImage(web, harness.BrokenImage)
	w.ClusterRolloutIs(r, 3, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment")
	w.ChangeObject(viewer, func() { viewer.Rules = reading("secrets") })
	w.SendsRoles("1 secrets, 2 secrets, 3 pods")
	w.HasImages("web", "1 broken x1, 2 broken x1, 3 1.27 x1")
	w.ClusterRolloutIs(r, 4, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment")

	w.ChangeObject(r, func() { r.Spec.Undo = new(r.Status.Revision) })
	w.SendsRoles("1 pods, 2 pods, 3 pods")
	w.HasImages("web", "1 1.27 x1, 2 1.27 x1, 3 1.27 x1")
	w.ClusterRolloutIs(r, 4, fleetv1alpha1.PropagationRolloutReasonUndone, "before revision")

	w.SetImage(web, "nginx:1.28")
	w.HasImages("web", "1 1.28 x1, 2 1.28 x1, 3 1.28 x1")
	w.SendsRoles("1 pods, 2 pods, 3 pods") // its own change is undone still
	w.ChangeObject(r, func() { r.Spec.Undo = nil })
	w.SendsRoles("1 secrets, 2 secrets, 3 secrets")
	w.ClusterRolloutIs(r, 5, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")
}

// reading lets a resource of the core group be read.
func reading(resource string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}}
}
