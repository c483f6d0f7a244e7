// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

func TestThePushAgentMayUseWhatBelongsToPushClustersAndNothingElse(t *testing.T) {
	const hubNamespace = "open-cluster-management-hub"
	h := startHub(t, registration.SetupOptions{Gates: hub.ResolveGates(t, nil), OwnNamespace: hubNamespace})
	agent := authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + hubNamespace + ":" + fleetv1alpha1.PushAgentServiceAccount,
	}
	secret := func(name string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"get", "list", "watch", "patch"}}
	}
	works := rbacv1.PolicyRule{APIGroups: []string{"work.open-cluster-management.io"}, Resources: []string{"manifestworks/status"}, Verbs: []string{"patch"}}
	lease := rbacv1.PolicyRule{
		APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{clusterv1.LeaseName}, Verbs: []string{"get", "update"},
	}
	status := func(cluster string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters/status"}, ResourceNames: []string{cluster}, Verbs: []string{"patch"}}
	}
	may := func(namespace string, rule rbacv1.PolicyRule, yes bool) {
		t.Helper()
		env.WaitAllowed(t.Context(), t, h.AdminConfig, agent, namespace, rule, yes)
	}
	allOf := func(cluster string, yes bool) {
		t.Helper()
		may(cluster, secret(fleetv1alpha1.DefaultSecretName), yes)
		may(cluster, works, yes)
		may(cluster, lease, yes)
		may("", status(cluster), yes)
	}

	// The operator makes this role; the hub does not hold what is in it.
	h.CreateObjects(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.PushCredentialsRole},
		Rules:      []rbacv1.PolicyRule{secret(fleetv1alpha1.DefaultSecretName)},
	})
	push := &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: "push"},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://member"},
	}
	h.CreateObjects(t, push, hub.NewCluster("push", true), hub.NewCluster("pull", true))
	for _, name := range []string{"push", "pull"} {
		h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	}
	allOf("push", true)
	may("push", secret("another"), false)
	allOf("pull", false)

	t.Run("until the cluster is Pull", func(t *testing.T) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"syncMode":"Pull"}}`))
		if err := h.Client.Patch(t.Context(), push, patch); err != nil {
			t.Fatal(err)
		}
		allOf("push", false)
		back := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"syncMode":"Push"}}`))
		if err := h.Client.Patch(t.Context(), push, back); err != nil {
			t.Fatal(err)
		}
		allOf("push", true)
	})
	t.Run("until the hub does not accept it any more", func(t *testing.T) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":false}}`))
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "push"}}
		if err := h.Client.Patch(t.Context(), mc, patch); err != nil {
			t.Fatal(err)
		}
		allOf("push", false)
	})
	t.Run("until the cluster is gone", func(t *testing.T) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"syncMode":"Push","apiEndpoint":"https://member"}}`))
		pull := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "pull"}}
		if err := h.Client.Patch(t.Context(), pull, patch); err != nil {
			t.Fatal(err)
		}
		allOf("pull", true)
		if err := h.Client.Delete(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "pull"}}); err != nil {
			t.Fatal(err)
		}
		allOf("pull", false)
	})
}
