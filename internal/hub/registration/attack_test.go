// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/hub/registration/csr/approval"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

func TestJoiningAndAttacks(t *testing.T) {
	h := startHub(t, registration.SetupOptions{
		Gates: hub.ResolveGates(t, map[string]bool{"ManagedClusterAutoApproval": true}), AutoApprovedUsers: []string{hub.ApprovedUser},
	})
	// Agents and bootstrap identities may create requests; the API server's own
	// authorization has tests of its own.
	admin := "system:masters"
	bootstrap := h.ClientOf(t, hub.ApprovedUser, admin)
	stranger := h.ClientOf(t, hub.StrangerUser, admin)

	t.Run("an approved identity joins", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("auto", false))
		h.IsApproved(t, h.AskForCertificate(t, bootstrap, hub.SubjectOf("auto", "one"), "auto", nil))
		h.IsAccepted(t, "auto", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
		mc := &clusterv1.ManagedCluster{}
		if err := h.Client.Get(t.Context(), client.ObjectKey{Name: "auto"}, mc); err != nil {
			t.Fatal(err)
		}
		if mc.Annotations[clusterv1.AnnotationAutomaticallyAcceptedOn] == "" || mc.Annotations[clusterv1.AnnotationJoinRequestedBy] != hub.ApprovedUser {
			t.Errorf("the annotations do not tell how the cluster was accepted: %v", mc.Annotations)
		}
	})
	t.Run("a request that comes before its cluster waits for it", func(t *testing.T) {
		csr := h.AskForCertificate(t, bootstrap, hub.SubjectOf("later", "one"), "later", nil)
		h.CreateObjects(t, hub.NewCluster("later", false))
		h.IsApproved(t, csr)
		h.IsAccepted(t, "later", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	})
	t.Run("an agent renews its certificate", func(t *testing.T) {
		h.IsApproved(t, h.AskForCertificate(t, h.AgentClient(t, "auto"), hub.SubjectOf("auto", "one"), "auto", nil))
	})
	t.Run("a cluster of somebody else is not accepted", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("manual", false))
		csr := h.AskForCertificate(t, stranger, hub.SubjectOf("manual", "one"), "manual", nil)
		h.StaysUndecided(t, bootstrap, csr)
	})
	t.Run("an agent asks for a certificate of another cluster", func(t *testing.T) {
		csr := h.AskForCertificate(t, h.AgentClient(t, "auto"), hub.SubjectOf("later", "one"), "later", nil)
		h.IsRefused(t, csr, policy.ReasonIdentity)
		h.HasEvent(t, "ManagedCluster", "later", policy.ReasonIdentity)
	})
	t.Run("an agent puts its label on a request for another cluster", func(t *testing.T) {
		h.IsRefused(t, h.AskForCertificate(t, h.AgentClient(t, "auto"), hub.SubjectOf("later", "one"), "auto", nil), policy.ReasonClusterDiffers)
	})
	t.Run("an agent asks for a further group and a DNS name", func(t *testing.T) {
		csr := h.AskForCertificate(t, h.AgentClient(t, "auto"), hub.SubjectOf("auto", "one"), "auto", func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "cluster-admins")
			r.DNSNames = []string{"kubernetes.default"}
		})
		h.IsRefused(t, csr, policy.ReasonMalformed)
	})
	t.Run("a renewal without the permission to renew", func(t *testing.T) {
		// Accepted by its spec, but without its role, because of its name; that it
		// can make a request at all is somebody's mistake.
		const makers = "request-makers"
		h.CreateObjects(t, hub.NewCluster("kube-evil", true),
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: makers}, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"},
			}}},
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: makers},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: makers},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: makers}},
			})
		maker := h.ClientOf(t, clusterv1.AgentUser("kube-evil", "one"), clusterv1.AgentGroup("kube-evil"), makers)
		h.Eventually(t, "the agent may make requests", func(ctx context.Context) (bool, error) {
			err := maker.Create(ctx, &certificatesv1.CertificateSigningRequest{}, client.DryRunAll)
			return !apierrors.IsForbidden(err), nil
		})
		csr := h.AskForCertificate(t, maker, hub.SubjectOf("kube-evil", "one"), "kube-evil", nil)
		h.IsRefused(t, csr, policy.ReasonNotAuthorized)
	})
	t.Run("a second identity asks for a taken name", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("taken", true))
		mc := hub.NewCluster("taken", true)
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"system:bootstrap:other1"}}}`, clusterv1.AnnotationJoinRequestedBy)
		h.PatchCluster(t, mc.Name, body)
		h.Eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			err := h.Cached.Get(ctx, client.ObjectKey{Name: "taken"}, mc)
			return mc.Annotations[clusterv1.AnnotationJoinRequestedBy] != "", err
		})
		h.IsRefused(t, h.AskForCertificate(t, bootstrap, hub.SubjectOf("taken", "one"), "taken", nil), policy.ReasonClusterJoined)
	})
	t.Run("a holder of the shared bootstrap identity asks for a certificate of a cluster that is alive", func(t *testing.T) {
		h.SetAvailable(t, "later", metav1.ConditionTrue)
		csr := h.AskForCertificate(t, bootstrap, hub.SubjectOf("later", "one"), "later", nil)
		h.IsRefused(t, csr, policy.ReasonClusterAlive)
		h.HasEvent(t, "ManagedCluster", "later", policy.ReasonClusterAlive)
		// The request waits until there is silence.
		h.SetAvailable(t, "later", metav1.ConditionUnknown)
		h.IsRefused(t, csr, policy.ReasonClusterJoined)
	})
	t.Run("a denied cluster that comes back stays denied", func(t *testing.T) {
		h.PatchCluster(t, "auto", `{"spec":{"hubAcceptsClient":false}}`)
		h.IsAccepted(t, "auto", metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
		h.Eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			mc := &clusterv1.ManagedCluster{}
			err := h.Cached.Get(ctx, client.ObjectKey{Name: "auto"}, mc)
			return !mc.Spec.HubAcceptsClient, err
		})
		h.IsRefused(t, h.AskForCertificate(t, bootstrap, hub.SubjectOf("auto", "two"), "auto", nil), policy.ReasonClusterDenied)
		mc := &clusterv1.ManagedCluster{}
		if err := h.Client.Get(t.Context(), client.ObjectKey{Name: "auto"}, mc); err != nil || mc.Spec.HubAcceptsClient {
			t.Errorf("the denied cluster is accepted again (%v)", err)
		}
	})
	t.Run("a flood of requests", func(t *testing.T) {
		h.CreateObjects(t, hub.NewCluster("flood", false))
		var csrs []*certificatesv1.CertificateSigningRequest
		key := hub.NewKey(t)
		for range approval.RequestsMax + 5 {
			csrs = append(csrs, h.AskWith(t, bootstrap, key, hub.SubjectOf("flood", "one"), "flood", nil))
		}
		h.HasEvent(t, "ManagedCluster", "flood", "CertificateRequestFlood")
		last := csrs[len(csrs)-1]
		if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(last), last); err != nil || len(last.Status.Conditions) > 0 {
			t.Fatalf("the last of too many requests has the conditions %v (%v), want none", last.Status.Conditions, err)
		}
		for _, csr := range csrs[:5] {
			if err := h.Client.Delete(t.Context(), csr); err != nil {
				t.Fatal(err)
			}
		}
		h.IsApproved(t, last)
	})
}
