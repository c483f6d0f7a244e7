// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestABindingSendsNothingThatIsInNoNamespace lets a tenant write a binding that is about
// a ClusterRole of the hub as if that were in his namespace, and have the hub read the kind
// by a policy that selects it. The binding goes, and no cluster is sent anything.
func TestABindingSendsNothingThatIsInNoNamespace(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	powers := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "powers"}}
	selects := harness.Policy("roles", only("member1"))
	selects.Namespace = tenant
	selects.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: powers.Name}}
	w.CreateAll(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant}}, powers, selects)
	forged := bound(powers)
	forged.Name, forged.Spec.ConflictResolution = "powers-clusterrole", policyv1alpha1.ConflictOverwrite
	forged.Spec.Resource = workv1alpha2.ObjectReference{
		APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Namespace: tenant, Name: powers.Name, UID: powers.UID,
	}
	forged.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member1"}}
	w.CreateAll(forged)
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: forged.Name}})
	w.HasOnlyNamespace(tenant, "member1")
}
