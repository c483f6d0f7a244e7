// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

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
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// Users who ask for certificates: one whose requests may be approved by themselves, and another.
const (
	ApprovedUser = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
	StrangerUser = "system:bootstrap:abcdef"
)

// AskForCertificate makes a certificate request as a user, for the subject's cluster and
// agent, changed by the function.
func (h *RegistrationHub) AskForCertificate(t testing.TB, as client.Client, subject pkix.Name, label string, change func(*x509.CertificateRequest)) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return h.AskWith(t, as, NewKey(t), subject, label, change)
}

// NewKey returns a new private key.
func NewKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// AskWith does the same for a key.
func (h *RegistrationHub) AskWith(
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

// SubjectOf returns the subject of the certificate of an agent.
func SubjectOf(cluster, agent string) pkix.Name {
	return pkix.Name{
		CommonName:   clusterv1.AgentUser(cluster, agent),
		Organization: []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters},
	}
}

// SetAvailable has the agent, or the hub, say how the cluster is.
func (h *RegistrationHub) SetAvailable(t testing.TB, cluster string, status metav1.ConditionStatus) {
	t.Helper()
	h.PatchCondition(t, cluster, clusterv1.ManagedClusterConditionAvailable, status)
}

// PatchCondition sets a condition of a cluster and waits until the controllers
// have seen it.
func (h *RegistrationHub) PatchCondition(t testing.TB, cluster, condition string, status metav1.ConditionStatus) {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: cluster}, mc); err != nil {
		t.Fatal(err)
	}
	before := mc.DeepCopy()
	meta.SetStatusCondition(&mc.Status.Conditions, metav1.Condition{
		Type: condition, Status: status, Reason: "Test",
	})
	if err := h.Client.Status().Patch(t.Context(), mc, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	h.Eventually(t, "the controllers know", func(ctx context.Context) (bool, error) {
		err := h.Cached.Get(ctx, client.ObjectKey{Name: cluster}, mc)
		return meta.IsStatusConditionPresentAndEqual(mc.Status.Conditions, condition, status), err
	})
}

// AgentClient returns a client with the credentials of agent one of a cluster.
func (h *RegistrationHub) AgentClient(t testing.TB, cluster string) client.Client {
	t.Helper()
	return h.ClientOf(t, clusterv1.AgentUser(cluster, "one"), clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters)
}

// IsApproved waits until a request is approved.
func (h *RegistrationHub) IsApproved(t testing.TB, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	h.Eventually(t, "the request is approved", func(ctx context.Context) (bool, error) {
		err := h.Client.Get(ctx, client.ObjectKeyFromObject(csr), csr)
		return len(csr.Status.Conditions) > 0 && csr.Status.Conditions[0].Reason == clusterv1.CSRReasonAutoApproved, err
	})
}

// AtMostOneApproved checks requests of several agents for one cluster.
func (h *RegistrationHub) AtMostOneApproved(t testing.TB, csrs []*certificatesv1.CertificateSigningRequest) {
	t.Helper()
	approved := 0
	for _, csr := range csrs {
		if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
			t.Fatal(err)
		}
		approved += len(csr.Status.Conditions)
	}
	if approved > 1 {
		t.Errorf("%d agents got a certificate of one cluster", approved)
	}
}

// IsRefused waits for the event about the request and checks that the request is
// still pending: neither approved nor denied.
func (h *RegistrationHub) IsRefused(t testing.TB, csr *certificatesv1.CertificateSigningRequest, reason string) {
	t.Helper()
	h.HasEvent(t, "CertificateSigningRequest", csr.Name, reason)
	if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
		t.Fatal(err)
	}
	if len(csr.Status.Conditions) > 0 {
		t.Errorf("the request has the conditions %v, want none", csr.Status.Conditions)
	}
}

// StaysUndecided checks that the hub leaves a request alone that it says nothing
// about: not at once, and not when it has decided about a later one of the
// user, which asks for a cluster of its own.
func (h *RegistrationHub) StaysUndecided(t testing.TB, as client.Client, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	later := csr.Labels[clusterv1.LabelClusterName] + "-later"
	h.CreateObjects(t, NewCluster(later, false))
	h.IsApproved(t, h.AskForCertificate(t, as, SubjectOf(later, "one"), later, nil))
	if err := h.Client.Get(t.Context(), client.ObjectKeyFromObject(csr), csr); err != nil {
		t.Fatal(err)
	}
	mc := h.ReadCluster(t, csr.Labels[clusterv1.LabelClusterName])
	if len(csr.Status.Conditions) > 0 || mc.Annotations[clusterv1.AnnotationAutomaticallyAcceptedOn] != "" {
		t.Errorf("the request has the conditions %v, and the cluster the annotations %v", csr.Status.Conditions, mc.Annotations)
	}
}

// ReadCluster returns a ManagedCluster, which has to be there.
func (h *RegistrationHub) ReadCluster(t testing.TB, name string) *clusterv1.ManagedCluster {
	t.Helper()
	mc := &clusterv1.ManagedCluster{}
	if err := h.Client.Get(t.Context(), client.ObjectKey{Name: name}, mc); err != nil {
		t.Fatal(err)
	}
	return mc
}

// HasEvent waits for an event.
func (h *RegistrationHub) HasEvent(t testing.TB, kind, name, reason string) {
	t.Helper()
	h.Eventually(t, fmt.Sprintf("there is an event %s about %s %s", reason, kind, name), func(ctx context.Context) (bool, error) {
		list := &eventsv1.EventList{}
		if err := h.Client.List(ctx, list); err != nil {
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

// JoinWithAgent does what an agent and an administrator do: one asks for a certificate,
// the other approves and accepts.
func (h *RegistrationHub) JoinWithAgent(t testing.TB, name, agent string) {
	t.Helper()
	h.CreateObjects(t, NewCluster(name, false))
	h.ApproveRequest(t, h.AskForCertificate(t, h.ClientOf(t, StrangerUser, "system:masters"), SubjectOf(name, agent), name, nil))
	h.PatchCluster(t, name, `{"spec":{"hubAcceptsClient":true}}`)
	h.IsAccepted(t, name, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
}

// ApproveRequest approves a request as kubectl certificate approve does.
func (h *RegistrationHub) ApproveRequest(t testing.TB, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "KubectlApprove", LastUpdateTime: metav1.Now(),
	})
	if err := h.Client.SubResource("approval").Update(t.Context(), csr); err != nil {
		t.Fatal(err)
	}
}

// HasRights waits until an agent may do all that agents do, or none of it.
func (h *RegistrationHub) HasRights(t testing.TB, name, agent string, all bool) {
	t.Helper()
	for _, check := range AgentChecks(name) {
		h.Eventually(t, fmt.Sprintf("agent %s of %s may %+v: %t", agent, name, check, all), func(ctx context.Context) (bool, error) {
			return h.OneAgentMay(ctx, t, name, agent, check) == all, nil
		})
	}
}

// NotesAgents waits until an annotation names the agents.
func (h *RegistrationHub) NotesAgents(t testing.TB, name, agents string) {
	t.Helper()
	h.Eventually(t, "the agents are "+agents, func(ctx context.Context) (bool, error) {
		mc := &clusterv1.ManagedCluster{}
		err := h.Client.Get(ctx, client.ObjectKey{Name: name}, mc)
		return mc.Annotations[clusterv1.AnnotationAgents] == agents, err
	})
}
