// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration"
	"github.com/capstan-io/capstan/internal/hub/registration/csr/approval"
	"github.com/capstan-io/capstan/internal/registration/policy"
)

const (
	approvedUser = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
	strangerUser = "system:bootstrap:abcdef"
)

// ask makes a certificate request as a user, for the subject's cluster and
// agent, changed by the function.
func (h *hub) ask(t testing.TB, as client.Client, subject pkix.Name, label string, change func(*x509.CertificateRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return h.askFor(t, as, newKey(t), subject, label, change)
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// askFor does the same for a key.
func (h *hub) askFor(
	t testing.TB, as client.Client, key *ecdsa.PrivateKey, subject pkix.Name, label string, change func(*x509.CertificateRequest),
) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	template := &x509.CertificateRequest{Subject: subject}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: label + "-", Labels: map[string]string{clusterv1.LabelClusterName: label}},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
	if err := as.Create(t.Context(), csr); err != nil {
		t.Fatal(err)
	}
	return csr
}

func subjectOf(cluster, agent string) pkix.Name {
	return pkix.Name{
		CommonName:   clusterv1.AgentUser(cluster, agent),
		Organization: []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters},
	}
}

// available has the agent, or the hub, say how the cluster is.
func (h *hub) available(t testing.TB, cluster string, status metav1.ConditionStatus) {
	t.Helper()
	h.patchStatus(t, cluster, clusterv1.ManagedClusterConditionAvailable, status)
}

// patchStatus sets a condition of a cluster and waits until the controllers
// have seen it.
func (h *hub) patchStatus(t testing.TB, cluster, condition string, status metav1.ConditionStatus) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Name: cluster}, mc); err != nil {
		t.Fatal(err)
	}
	before := mc.DeepCopy()
	meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: "Test",
	})
	if err := h.client.Status().Patch(t.Context(), mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
		err := h.cached.Get(ctx, client.ObjectKey{Name: cluster}, mc)
		return meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, condition, status), err
	})
}

func (h *hub) agent(t testing.TB, cluster string) client.Client {
	t.Helper()
	return h.clientOf(t, clusterv1.AgentUser(cluster, "one"), clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters)
}

func (h *hub) approved(t testing.TB, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	h.eventually(t, "the request is approved", func(ctx context.Context) (bool, error) {
		err := h.client.Get(ctx, client.ObjectKeyFromObject(csr), csr)
		return len(csr.Status.Conditions) > 0 && csr.Status.Conditions[0].Reason == clusterv1.CSRReasonAutoApproved, err
	})
}

// atMostOneApproved checks requests of several agents for one cluster.
func (h *hub) atMostOneApproved(t testing.TB, csrs []*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	approved := 0
	for _, csr := range csrs {
		if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
			t.Fatal(err)
		}
		approved += len(csr.Status.Conditions)
	}
	if approved > 1 {
		t.Errorf("%d agents got a certificate of one cluster", approved)
	}
}

// refused waits for the event about the request and checks that the request is
// still pending: neither approved nor denied.
func (h *hub) refused(t testing.TB, csr *certificatesv1.CertificateSigningRequest, reason string) {
	t.Helper()
	h.told(t, "CertificateSigningRequest", csr.Name, reason)
	if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
		t.Fatal(err)
	}
	if len(csr.Status.Conditions) > 0 {
		t.Errorf("the request has the conditions %v, want none", csr.Status.Conditions)
	}
}

// undecided checks that the hub leaves a request alone that it says nothing
// about: not at once, and not when it has decided about a later one of the
// user, which asks for a cluster of its own.
func (h *hub) undecided(t testing.TB, as client.Client, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	later := csr.Labels[clusterv1.LabelClusterName] + "-later"
	h.create(t, cluster(later, false))
	h.approved(t, h.ask(t, as, subjectOf(later, "one"), later, nil))
	if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
		t.Fatal(err)
	}
	mc := h.get(t, csr.Labels[clusterv1.LabelClusterName])
	if len(csr.Status.Conditions) > 0 || mc.Annotations[clusterv1.AnnotationAutomaticallyAcceptedOn] != "" {
		t.Errorf("the request has the conditions %v, and the cluster the annotations %v", csr.Status.Conditions, mc.Annotations)
	}
}

func (h *hub) get(t testing.TB, name string) *clusterv1.ManagedCluster {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	return mc
}

// told waits for an event.
func (h *hub) told(t testing.TB, kind, name, reason string) {
	t.Helper()
	h.eventually(t, fmt.Sprintf("there is an event %s about %s %s", reason, kind, name), func(ctx context.Context) (bool, error) {
		list := &eventsv1.EventList{}
		if err := h.client.List(ctx, list); err != nil {
			return false, err
		}
		for i := range list.Items {
			if e := &list.Items[i]; e.Regarding.Kind == kind && e.Regarding.Name == name && e.Reason == reason {
				return true, nil
			}
		}
		return false, nil
	})
}

func TestJoiningAndAttacks(t *testing.T) {
	h := startHub(t, registration.SetupOptions{
		Gates: gates(t, map[string]bool{"ManagedClusterAutoApproval": true}), AutoApprovedUsers: []string{approvedUser},
	})
	// Agents and bootstrap identities may create requests; the API server's own
	// authorization has tests of its own.
	admin := "system:masters"
	bootstrap := h.clientOf(t, approvedUser, admin)
	stranger := h.clientOf(t, strangerUser, admin)

	t.Run("an approved identity joins", func(t *testing.T) {
		h.create(t, cluster("auto", false))
		h.approved(t, h.ask(t, bootstrap, subjectOf("auto", "one"), "auto", nil))
		h.accepted(t, "auto", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
		mc := &clusterv1.ManagedCluster{}
		if err := h.client.Get(t.Context(), client.ObjectKey{Name: "auto"}, mc); err != nil {
			t.Fatal(err)
		}
		if mc.Annotations[clusterv1.AnnotationAutomaticallyAcceptedOn] == "" || mc.Annotations[clusterv1.AnnotationJoinRequestedBy] != approvedUser {
			t.Errorf("the annotations do not tell how the cluster was accepted: %v", mc.Annotations)
		}
	})
	t.Run("a request that comes before its cluster waits for it", func(t *testing.T) {
		csr := h.ask(t, bootstrap, subjectOf("later", "one"), "later", nil)
		h.create(t, cluster("later", false))
		h.approved(t, csr)
		h.accepted(t, "later", metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
	})
	t.Run("an agent renews its certificate", func(t *testing.T) {
		h.approved(t, h.ask(t, h.agent(t, "auto"), subjectOf("auto", "one"), "auto", nil))
	})
	t.Run("a cluster of somebody else is not accepted", func(t *testing.T) {
		h.create(t, cluster("manual", false))
		csr := h.ask(t, stranger, subjectOf("manual", "one"), "manual", nil)
		h.undecided(t, bootstrap, csr)
	})
	t.Run("an agent asks for a certificate of another cluster", func(t *testing.T) {
		csr := h.ask(t, h.agent(t, "auto"), subjectOf("later", "one"), "later", nil)
		h.refused(t, csr, policy.ReasonIdentity)
		h.told(t, "ManagedCluster", "later", policy.ReasonIdentity)
	})
	t.Run("an agent puts its label on a request for another cluster", func(t *testing.T) {
		h.refused(t, h.ask(t, h.agent(t, "auto"), subjectOf("later", "one"), "auto", nil), policy.ReasonClusterDiffers)
	})
	t.Run("an agent asks for a further group and a DNS name", func(t *testing.T) {
		csr := h.ask(t, h.agent(t, "auto"), subjectOf("auto", "one"), "auto", func(r *x509.CertificateRequest) {
			r.Subject.Organization = append(r.Subject.Organization, "cluster-admins")
			r.DNSNames = []string{"kubernetes.default"}
		})
		h.refused(t, csr, policy.ReasonMalformed)
	})
	t.Run("a renewal without the permission to renew", func(t *testing.T) {
		// Accepted by its spec, but without its role, because of its name; that it
		// can make a request at all is somebody's mistake.
		const makers = "request-makers"
		h.create(t, cluster("kube-evil", true),
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: makers}, Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{"certificates.k8s.io"}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"},
			}}},
			&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: makers},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: makers},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: makers}},
			})
		maker := h.clientOf(t, clusterv1.AgentUser("kube-evil", "one"), clusterv1.AgentGroup("kube-evil"), makers)
		h.eventually(t, "the agent may make requests", func(ctx context.Context) (bool, error) {
			err := maker.Create(ctx, &certificatesv1.CertificateSigningRequest{}, client.DryRunAll)
			return !apierrors.IsForbidden(err), nil
		})
		csr := h.ask(t, maker, subjectOf("kube-evil", "one"), "kube-evil", nil)
		h.refused(t, csr, policy.ReasonNotAuthorized)
	})
	t.Run("a second identity asks for a taken name", func(t *testing.T) {
		h.create(t, cluster("taken", true))
		mc := cluster("taken", true)
		body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"system:bootstrap:other1"}}}`, clusterv1.AnnotationJoinRequestedBy)
		h.patch(t, mc.Name, body)
		h.eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			err := h.cached.Get(ctx, client.ObjectKey{Name: "taken"}, mc)
			return mc.Annotations[clusterv1.AnnotationJoinRequestedBy] != "", err
		})
		h.refused(t, h.ask(t, bootstrap, subjectOf("taken", "one"), "taken", nil), policy.ReasonClusterJoined)
	})
	t.Run("a holder of the shared bootstrap identity asks for a certificate of a cluster that is alive", func(t *testing.T) {
		h.available(t, "later", metav1.ConditionTrue)
		csr := h.ask(t, bootstrap, subjectOf("later", "one"), "later", nil)
		h.refused(t, csr, policy.ReasonClusterAlive)
		h.told(t, "ManagedCluster", "later", policy.ReasonClusterAlive)
		// The request waits until there is silence.
		h.available(t, "later", metav1.ConditionUnknown)
		h.refused(t, csr, policy.ReasonClusterJoined)
	})
	t.Run("a denied cluster that comes back stays denied", func(t *testing.T) {
		h.patch(t, "auto", `{"spec":{"hubAcceptsClient":false}}`)
		h.accepted(t, "auto", metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
		h.eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
			mc := &clusterv1.ManagedCluster{}
			err := h.cached.Get(ctx, client.ObjectKey{Name: "auto"}, mc)
			return !mc.Spec.HubAcceptsClient, err
		})
		h.refused(t, h.ask(t, bootstrap, subjectOf("auto", "two"), "auto", nil), policy.ReasonClusterDenied)
		mc := &clusterv1.ManagedCluster{}
		if err := h.client.Get(t.Context(), client.ObjectKey{Name: "auto"}, mc); err != nil || mc.Spec.HubAcceptsClient {
			t.Errorf("the denied cluster is accepted again (%v)", err)
		}
	})
	t.Run("a flood of requests", func(t *testing.T) {
		h.create(t, cluster("flood", false))
		var csrs []*certificatesv1.CertificateSigningRequest
		key := newKey(t)
		for range approval.RequestsMax + 5 {
			csrs = append(csrs, h.askFor(t, bootstrap, key, subjectOf("flood", "one"), "flood", nil))
		}
		h.told(t, "ManagedCluster", "flood", "CertificateRequestFlood")
		last := csrs[len(csrs)-1]
		if err := h.client.Get(t.Context(), client.ObjectKeyFromObject(last), last); err != nil || len(last.Status.Conditions) > 0 {
			t.Fatalf("the last of too many requests has the conditions %v (%v), want none", last.Status.Conditions, err)
		}
		for _, csr := range csrs[:5] {
			if err := h.client.Delete(t.Context(), csr); err != nil {
				t.Fatal(err)
			}
		}
		h.approved(t, last)
	})
}
