// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package joining

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// ListRequests returns the certificate signing requests of a cluster.
func (h *Hub) ListRequests(cluster string) []certificatesv1.CertificateSigningRequest {
	h.T.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	expect.NoError(h.T, h.Client.List(h.T.Context(), list, client.MatchingLabels{clusterv1.LabelClusterName: cluster}))
	return list.Items
}

// AwaitRequest waits for a request that waits for approval.
func (h *Hub) AwaitRequest(cluster string) *certificatesv1.CertificateSigningRequest {
	h.T.Helper()
	var found *certificatesv1.CertificateSigningRequest
	h.AwaitState("a certificate signing request of "+cluster, func() (string, bool) {
		list := h.ListRequests(cluster)
		for i := range list {
			if len(list[i].Status.Conditions) == 0 {
				found = &list[i]
			}
		}
		return fmt.Sprintf("%d requests", len(list)), found != nil
	})
	return found
}

// SignRequest approves a request and signs it.
func (h *Hub) SignRequest(csr *certificatesv1.CertificateSigningRequest, from, until time.Duration) {
	h.T.Helper()
	h.AnswerRequest(csr, certificatesv1.CertificateApproved)
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	expect.NoError(h.T, err)
	csr.Status.Certificate = h.IssueCertificate(request.Subject, request.PublicKey, from, until)
	expect.NoError(h.T, h.Client.Status().Update(h.T.Context(), csr))
}

// AnswerRequest approves or denies a request.
func (h *Hub) AnswerRequest(csr *certificatesv1.CertificateSigningRequest, with certificatesv1.RequestConditionType) {
	h.T.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: with, Status: corev1.ConditionTrue, Reason: "Test", Message: "as the test wants it",
	})
	expect.NoError(h.T, h.Client.SubResource("approval").Update(h.T.Context(), csr))
}

// AcceptCluster does what an administrator and the hub's controllers do.
func (h *Hub) AcceptCluster(cluster string) {
	h.T.Helper()
	h.SetAccepts(cluster, true)
	h.PutRole(AgentRole(cluster, true))
	agents := build.GroupSubject(clusterv1.AgentGroup(cluster))
	renewal := build.AccessRule("coordination.k8s.io", "leases", "get", "list", "watch", "update")
	renewal.ResourceNames = []string{clusterv1.LeaseName}
	for _, object := range []client.Object{
		build.Namespace(cluster), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: clusterv1.LeaseName}},
		build.ClusterRoleBinding("managedcluster:"+cluster, "managedcluster:"+cluster, agents),
		build.NamespacedRole(cluster, "registration", renewal), build.RoleBinding(cluster, "registration", "registration", agents),
	} {
		expect.NoError(h.T, client.IgnoreAlreadyExists(h.Client.Create(h.T.Context(), object)))
	}
	h.SetAccepted(cluster, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
}

// DenyCluster takes the acceptance back.
func (h *Hub) DenyCluster(cluster string) {
	h.T.Helper()
	h.SetAccepts(cluster, false)
	h.PutRole(AgentRole(cluster, false))
	expect.NoError(h.T, h.Client.Delete(h.T.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "registration"}}))
	h.SetAccepted(cluster, metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
}

// AgentRole is what an agent may do in the whole hub.
func AgentRole(cluster string, accepted bool) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "managedcluster:" + cluster}}
	verbs := []string{"get", "list", "watch"}
	if accepted {
		verbs = append(verbs, "update")
		role.Rules = append(role.Rules,
			rbacv1.PolicyRule{
				APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"},
				Verbs: []string{"create", "get", "list", "watch"},
			},
			rbacv1.PolicyRule{
				APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters/status"},
				ResourceNames: []string{cluster}, Verbs: []string{"patch", "update"},
			},
			rbacv1.PolicyRule{
				APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"},
				ResourceNames: []string{cluster}, Verbs: []string{"get", "list", "watch"},
			},
			rbacv1.PolicyRule{
				APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections/status"},
				ResourceNames: []string{cluster}, Verbs: []string{"patch"},
			})
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, ResourceNames: []string{cluster}, Verbs: verbs,
	})
	return role
}

// PutRole makes a role what it is here.
func (h *Hub) PutRole(role *rbacv1.ClusterRole) {
	h.T.Helper()
	cluster.PutObject(h.T, h.Client, role)
}

// SetAccepts says in the spec of a ManagedCluster whether it is accepted.
func (h *Hub) SetAccepts(cluster string, accepts bool) {
	h.T.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	patch := fmt.Sprintf(`{"spec":{"hubAcceptsClient":%t}}`, accepts)
	expect.NoError(h.T, h.Client.Patch(h.T.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// SetAccepted says in its status whether it is.
func (h *Hub) SetAccepted(cluster string, status metav1.ConditionStatus, reason string) {
	h.T.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	conditions.SetCondition(&mc.Status.Conditions, 0, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: status, Reason: reason, Message: "-",
	})
	expect.NoError(h.T, conditions.ApplyStatus(h.T.Context(), h.Client, mc, "hub", mc.Status.Conditions, nil))
}

// ReadCluster returns the ManagedCluster, or nil.
func (h *Hub) ReadCluster(name string) *clusterv1.ManagedCluster {
	h.T.Helper()
	mc := &clusterv1.ManagedCluster{}
	err := h.Client.Get(h.T.Context(), client.ObjectKey{Name: name}, mc)
	if apierrors.IsNotFound(err) {
		return nil
	}
	expect.NoError(h.T, err)
	return mc
}

// AwaitCluster waits until there is a ManagedCluster.
func (h *Hub) AwaitCluster(name string) {
	h.T.Helper()
	h.AwaitState("ManagedCluster "+name, func() (string, bool) { return "absent", h.ReadCluster(name) != nil })
}

// AwaitAvailable waits until the agent says that the cluster is well.
func (h *Hub) AwaitAvailable(name string) {
	h.T.Helper()
	h.AwaitState("cluster "+name+" to be available", func() (string, bool) {
		mc := h.ReadCluster(name)
		if mc == nil {
			return "absent", false
		}
		return fmt.Sprint(mc.Status.Conditions),
			meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable) &&
				meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
	})
}
