// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestNoClusterGetsTheCredentialsOfAnother sends all Secrets to all clusters, along with
// what others refer to, by policies and by bindings that somebody has written. What is in
// the namespace of a cluster stays on the hub.
func TestNoClusterGetsTheCredentialsOfAnother(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	const asks, own = "asks", "member1"
	needs := harness.Deployment("needs", 1)
	needs.Namespace, needs.Spec.Template.Spec.ServiceAccountName = own, ""
	needs.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "keys", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}}}}
	theirs := harness.Policy("theirs", policyv1alpha1.Placement{})
	theirs.Namespace, theirs.Spec.PropagateDeps = own, true
	keys := secret(own, "keys")
	w.CreateAll(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: asks}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		keys, secret(own, fleetv1alpha1.DefaultSecretName), secret("shop", fleetv1alpha1.DefaultSecretName), secret("shop", "shown"), secret(asks, "asked"),
		needs, theirs, everywhere("secrets", "v1", "Secret"))
	written := bound(keys)
	written.Namespace, written.Spec.Clusters = own, []workv1alpha2.TargetCluster{{Name: "member2"}}
	w.CreateAll(written)

	w.SendsOf("Secret", "asks/asked", "shop/shown")
	w.SendsOf("Deployment")

	// A cluster asks, and is accepted, whose name is that of a namespace.
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: asks}}
	w.CreateAll(cluster, secret(asks, "meanwhile"))
	w.SendsOf("Secret", "asks/asked", "asks/meanwhile", "shop/shown")
	w.ChangeObject(cluster, func() { cluster.Spec.HubAcceptsClient = true })
	w.SendsOf("Secret", "shop/shown")
	asked := secret(asks, "asked")
	w.Eventually("the object has no marks of a policy", func() error {
		if err := w.Get(t.Context(), client.ObjectKeyFromObject(asked), asked); err != nil {
			return err
		}
		if len(asked.Labels)+len(asked.Annotations) > 0 {
			return fmt.Errorf("it has %v and %v", asked.Labels, asked.Annotations)
		}
		return nil
	})
	w.CreateAll(secret(asks, "later"), secret("shop", "last"))
	w.SendsOf("Secret", "shop/last", "shop/shown")
}

// TestRolesOfKubernetesStay sends all roles. Those that each cluster has from Kubernetes
// are not among them, and the policy is told so.
func TestRolesOfKubernetesStay(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	boots := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "boots", Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}}}
	w.CreateAll(everywhere("roles", "rbac.authorization.k8s.io/v1", "ClusterRole"), boots,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	w.SendsOf("ClusterRole", "/shop")
}

// TestNoRoleOfAMemberIsTakenOver sends all roles, and overwrites what members have: only a role
// that the hub may send becomes the hub's. Those of Kubernetes, those that are the member's alone,
// and those that only look like the former on the hub stay as they are, also when the policy and
// the templates go.
func TestNoRoleOfAMemberIsTakenOver(t *testing.T) {
	t.Parallel()
	w := harness.NewWorldOfMembers(t, servers, 1)
	role := func(name, verb string, labels map[string]string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{verb}}},
		}
	}
	boots := map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}
	p := everywhere("roles", "rbac.authorization.k8s.io/v1", "ClusterRole")
	p.Labels = map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-roles"}
	p.Finalizers = []string{policyv1alpha1.FinalizerClusterPropagationPolicy}
	p.Spec.ConflictResolution = policyv1alpha1.ConflictOverwrite
	templates := []*rbacv1.ClusterRole{role("shop", "get", nil), role("system:shop", "get", nil), role("boots", "get", boots)}
	of := w.Members["member1"]
	for _, name := range []string{"mine", "shop", "system:shop", "boots"} {
		if err := of.Create(t.Context(), role(name, "list", nil)); err != nil {
			t.Fatal(err)
		}
	}
	w.CreateAll(templates[0], templates[1], templates[2])
	before := of.ClusterRoles(w)
	w.CreateAll(p)
	w.StartControllers()
	w.Eventually("shop is taken over", func() error {
		shop := of.ClusterRoles(w)["shop"]
		if shop.Labels[workv1alpha2.LabelManaged] != "true" || shop.Rules[0].Verbs[0] != "get" {
			return fmt.Errorf("it is %+v", shop)
		}
		return nil
	})
	stay := func(when string) {
		t.Helper()
		after := of.ClusterRoles(w)
		for name, was := range before {
			if is := after[name]; name != "shop" && (is.UID != was.UID || is.ResourceVersion != was.ResourceVersion) {
				t.Errorf("%s: role %s was %+v, and is %+v", when, name, was, is)
			}
		}
	}
	stay("it is overwritten")

	shop := of.ClusterRoles(w)["shop"]
	if err := w.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.IsGone(p)
	stay("the policy is gone")
	// What is sent later arrives after what could have been done for that.
	w.ChangeObject(templates[0], func() { templates[0].Rules[0].Verbs = []string{"watch"} })
	w.Eventually("shop is still sent", func() error {
		if is := of.ClusterRoles(w)["shop"]; is.UID != shop.UID || len(is.Rules) == 0 || is.Rules[0].Verbs[0] != "watch" {
			return fmt.Errorf("it is %+v", is)
		}
		return nil
	})
	for _, template := range templates {
		if err := w.Delete(t.Context(), template); err != nil {
			t.Fatal(err)
		}
	}
	w.IsGone(&workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "shop-clusterrole"}})
	stay("the templates are gone")
}

func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// everywhere is a policy that sends all objects of a kind to all clusters.
func everywhere(name, apiVersion, kind string) *policyv1alpha1.ClusterPropagationPolicy {
	return &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1alpha1.PropagationSpec{
		ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: apiVersion, Kind: kind}},
	}}
}
