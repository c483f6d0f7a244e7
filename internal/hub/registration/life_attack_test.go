// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration"
)

// TestACertificateOutlivesItsCluster is about who holds a certificate of a
// ManagedCluster that was deleted, when the name is accepted again. The
// certificate is valid as ever, and in the group of the cluster.
func TestACertificateOutlivesItsCluster(t *testing.T) {
	h := startHub(t, registration.SetupOptions{Gates: gates(t, nil), OwnNamespace: "open-cluster-management-hub"})
	t.Run("it opens nothing after the name is accepted again", func(t *testing.T) { earlierLife(t, h) })
	t.Run("an agent that is approved after its cluster was accepted gets in", func(t *testing.T) { approvedLater(t, h) })
	t.Run("agents of an earlier release keep their permissions until somebody ends that", func(t *testing.T) { beforeUpgrade(t, h) })
	t.Run("agents keep their permissions when somebody removes their names", func(t *testing.T) { namesRemoved(t, h) })
}

// join does what an agent and an administrator do: one asks for a certificate,
// the other approves and accepts.
func (h *hub) join(t *testing.T, name, agent string) {
	t.Helper()
	h.create(t, cluster(name, false))
	h.approve(t, h.ask(t, h.clientOf(t, strangerUser, "system:masters"), subjectOf(name, agent), name, nil))
	h.patch(t, name, `{"spec":{"hubAcceptsClient":true}}`)
	h.accepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
}

// approve approves a request as kubectl certificate approve does.
func (h *hub) approve(t *testing.T, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KubectlApprove", LastUpdateTime: metav1.Now(),
	})
	if err := h.client.SubResource("approval").Update(t.Context(), csr); err != nil {
		t.Fatal(err)
	}
}

// hasRights waits until an agent may do all that agents do, or none of it.
func (h *hub) hasRights(t *testing.T, name, agent string, all bool) {
	t.Helper()
	for _, check := range agentChecks(name) {
		h.eventually(t, fmt.Sprintf("agent %s of %s may %+v: %t", agent, name, check, all), func(ctx context.Context) (bool, error) {
			return h.agentMay(ctx, t, name, agent, check) == all, nil
		})
	}
}

func earlierLife(t *testing.T, h *hub) {
	const name = "reborn"
	h.join(t, name, "thief")
	h.hasRights(t, name, "thief", true)
	if err := h.client.Delete(t.Context(), cluster(name, true)); err != nil {
		t.Fatal(err)
	}
	h.gone(t, cluster(name, true))
	// The API server knows the time in seconds, and the namespace stays.
	namespace := &corev1.Namespace{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Name: name}, namespace); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "the next second", func(ctx context.Context) (bool, error) {
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		err := h.client.Create(ctx, probe, client.DryRunAll)
		return namespace.CreationTimestamp.Before(&probe.CreationTimestamp), err
	})
	h.join(t, name, "guest")
	h.hasRights(t, name, "guest", true)
	for _, check := range agentChecks(name) {
		if h.agentMay(t.Context(), t, name, "thief", check) {
			t.Errorf("with a certificate of the earlier cluster one may %+v", check)
		}
	}
}

func approvedLater(t *testing.T, h *hub) {
	const name = "accepted-first"
	mc := cluster(name, true)
	mc.Annotations = nil
	h.create(t, mc)
	h.accepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	h.hasRights(t, name, "one", false)
	says := func(part string) {
		t.Helper()
		h.eventually(t, "the condition says "+part, func(ctx context.Context) (bool, error) {
			mc := &clusterv1.ManagedCluster{}
			err := h.client.Get(ctx, client.ObjectKey{Name: name}, mc)
			accepted := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
			return accepted != nil && strings.Contains(accepted.Message, part), err
		})
	}
	says("no certificate request of its agent has been approved yet")
	h.approve(t, h.ask(t, h.clientOf(t, strangerUser, "system:masters"), subjectOf(name, "one"), name, nil))
	h.hasRights(t, name, "one", true)
	says("its agent has its permissions")
	h.hasRights(t, name, "two", false)
}

func beforeUpgrade(t *testing.T, h *hub) {
	const name = "upgraded"
	mc := cluster(name, true)
	mc.Annotations = nil
	h.create(t, mc)
	h.accepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:managedcluster:" + name}}
	group := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
		`{"metadata":{"annotations":null},"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":%q}]}`, clusterv1.AgentGroup(name)))
	// A look at the cluster that began before its condition was shown writes the binding of a
	// new cluster once more. What was there before an upgrade meets no such look: so it is
	// written until the hub has seen it.
	h.eventually(t, "the hub sees the binding of an earlier release", func(ctx context.Context) (bool, error) {
		if err := h.client.Patch(ctx, binding, group); err != nil {
			return false, err
		}
		mc := &clusterv1.ManagedCluster{}
		err := h.client.Get(ctx, client.ObjectKey{Name: name}, mc)
		return mc.Annotations[clusterv1.AnnotationAgents] != "", err
	})
	h.noted(t, name, "*")
	h.hasRights(t, name, "one", true)
	h.hasRights(t, name, "two", true)
	h.approved(t, h.ask(t, h.agent(t, name), subjectOf(name, "one"), name, nil))
	h.noted(t, name, "*,one")
	h.hasRights(t, name, "two", true)
	h.patch(t, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"one"}}}`, clusterv1.AnnotationAgents))
	h.hasRights(t, name, "two", false)
	h.hasRights(t, name, "one", true)
	h.noted(t, name, "one")
}

// noted waits until an annotation names the agents.
func (h *hub) noted(t *testing.T, name, agents string) {
	t.Helper()
	h.eventually(t, "the agents are "+agents, func(ctx context.Context) (bool, error) {
		mc := &clusterv1.ManagedCluster{}
		err := h.client.Get(ctx, client.ObjectKey{Name: name}, mc)
		return mc.Annotations[clusterv1.AnnotationAgents] == agents, err
	})
}

func namesRemoved(t *testing.T, h *hub) {
	const name = "replaced"
	h.join(t, name, "one")
	h.hasRights(t, name, "one", true)
	h.patch(t, name, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, clusterv1.AnnotationAgents))
	h.noted(t, name, "one")
	h.hasRights(t, name, "one", true)
}
