// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// TestACertificateOpensNothingAfterTheNameIsAcceptedAgain is about who holds a certificate of a
// ManagedCluster that was deleted, when the name is accepted again. The certificate is valid as
// ever, and in the group of the cluster.
func TestACertificateOpensNothingAfterTheNameIsAcceptedAgain(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	const name = "reborn"
	h.JoinWithAgent(t, name, "thief")
	h.HasRights(t, name, "thief", true)
	removeClusters(t, h, name)
	// The API server knows the time in seconds, and the namespace stays.
	namespace := &corev1.Namespace{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: name}, namespace); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the next second", func(ctx context.Context) (bool, error) {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		err := h.Client.Create(ctx, probe, client.DryRunAll)
		return namespace.CreationTimestamp.Before(&probe.CreationTimestamp), err
	})
	h.JoinWithAgent(t, name, "guest")
	h.HasRights(t, name, "guest", true)
	for _, check := range hub.AgentChecks(name) {
		if h.OneAgentMay(t.Context(), t, name, "thief", check) {
			t.Errorf("with a certificate of the earlier cluster one may %+v", check)
		}
	}
	removeClusters(t, h, name)
}

func TestAnAgentThatIsApprovedAfterItsClusterWasAcceptedGetsIn(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	const name = "accepted-first"
	mc := hub.NewCluster(name, true)
	mc.Annotations = nil
	h.CreateObjects(t, mc)
	h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	h.HasRights(t, name, "one", false)
	says := func(part string) {
		t.Helper()
		h.Eventually(t, "the condition says "+part, func(ctx context.Context) (bool, error) {
			mc := &clusterv1.ManagedCluster{}
			err := h.Client.Get(ctx, client.ObjectKey{Name: name}, mc)
			accepted := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
			return accepted != nil && strings.Contains(accepted.Message, part), err
		})
	}
	says("no certificate request of its agent has been approved yet")
	h.ApproveRequest(t, h.AskForCertificate(t, h.ClientOf(t, hub.StrangerUser, "system:masters"), hub.SubjectOf(name, "one"), name, nil))
	h.HasRights(t, name, "one", true)
	says("its agent has its permissions")
	h.HasRights(t, name, "two", false)
	removeClusters(t, h, name)
}

func TestAgentsOfAnEarlierReleaseKeepTheirPermissionsUntilSomebodyEndsThat(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	const name = "upgraded"
	mc := hub.NewCluster(name, true)
	mc.Annotations = nil
	h.CreateObjects(t, mc)
	h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:managedcluster:" + name}}
	group := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
		`{"metadata":{"annotations":null},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":%q}]}`, clusterv1.AgentGroup(name)))
	// A look at the cluster that began before its condition was shown writes the binding of a
	// new cluster once more. What was there before an upgrade meets no such look: so it is
	// written until the hub has seen it.
	h.Eventually(t, "the hub sees the binding of an earlier release", func(ctx context.Context) (bool, error) {
		if err := h.Client.Patch(ctx, binding, group); err != nil {
			return false, err
		}
		mc := &clusterv1.ManagedCluster{}
		err := h.Client.Get(ctx, client.ObjectKey{Name: name}, mc)
		return mc.Annotations[clusterv1.AnnotationAgents] != "", err
	})
	h.NotesAgents(t, name, "*")
	h.HasRights(t, name, "one", true)
	h.HasRights(t, name, "two", true)
	h.IsApproved(t, h.AskForCertificate(t, h.AgentClient(t, name), hub.SubjectOf(name, "one"), name, nil))
	h.NotesAgents(t, name, "*,one")
	h.HasRights(t, name, "two", true)
	h.PatchCluster(t, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"one"}}}`, clusterv1.AnnotationAgents))
	h.HasRights(t, name, "two", false)
	h.HasRights(t, name, "one", true)
	h.NotesAgents(t, name, "one")
	removeClusters(t, h, name)
}

func TestAgentsKeepTheirPermissionsWhenSomebodyRemovesTheirNames(t *testing.T) {
	h := clusterHubs.TakeFixture(t)
	const name = "replaced"
	h.JoinWithAgent(t, name, "one")
	h.HasRights(t, name, "one", true)
	h.PatchCluster(t, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, clusterv1.AnnotationAgents))
	h.NotesAgents(t, name, "one")
	h.HasRights(t, name, "one", true)
	removeClusters(t, h, name)
}
