// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	testcluster "github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
)

// TestABootstrapTokenHasSoManyRequestsThatWait has a bootstrap token make certificate requests that nobody decides
// about, and others whose requests have nothing to do with clusters.
func TestABootstrapTokenHasSoManyRequestsThatWait(t *testing.T) {
	h := installedHubs.ShareFixture(t)
	admin := h.admin
	config := h.config
	count := h.count
	const flooder = "system:bootstrap:flooder"
	asks := []rbacv1.PolicyRule{{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: []string{"create"}}}
	as := func(user string, groups ...string) client.Client {
		testcluster.GrantUser(t, admin, config, user, asks...)
		c := rest.CopyConfig(config)
		c.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
		return newClient(t, c)
	}
	token, kubelet, other := as(flooder, clusterv1.GroupBootstrappers), as("kubelet"), as("other")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "x"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := func(signer, label string) *certificatesv1.CertificateSigningRequest {
		csr := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "asked-"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: signer, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			},
		}
		if label != "" {
			csr.Labels = map[string]string{clusterv1.LabelClusterName: label}
		}
		return csr
	}
	const ours, foreign = certificatesv1.KubeAPIServerClientSignerName, "example.com/signer"
	count.take()
	for _, csr := range []*certificatesv1.CertificateSigningRequest{request(ours, "one"), request(ours, ""), request(foreign, "")} {
		if err := token.Create(t.Context(), csr); err != nil {
			t.Fatalf("a request below the limit: %v", err)
		}
	}
	if got := count.take()[cluster.ValidateRequestPath]; got != maxUnaccepted {
		t.Errorf("of %d requests of a bootstrap token, the webhook was asked about %d", maxUnaccepted, got)
	}
	for _, csr := range []*certificatesv1.CertificateSigningRequest{request(ours, "two"), request(ours, ""), request(foreign, "")} {
		refused(t, token.Create(t.Context(), csr), apierrors.IsForbidden, `3 certificate requests of user "`+flooder+`" wait for approval`)
	}
	count.take()
	for range maxUnaccepted + 1 {
		for _, csr := range []*certificatesv1.CertificateSigningRequest{
			request(certificatesv1.KubeAPIServerClientKubeletSignerName, ""), request(ours, ""), request(foreign, "one"),
		} {
			if err := kubelet.Create(t.Context(), csr); err != nil {
				t.Errorf("a request that has nothing to do with clusters: %v", err)
			}
		}
	}
	if got := count.take()[cluster.ValidateRequestPath]; got != 0 {
		t.Errorf("the webhook was asked about %d requests that have nothing to do with clusters", got)
	}
	if err := other.Create(t.Context(), request(ours, "two")); err != nil || count.take()[cluster.ValidateRequestPath] != 1 {
		t.Errorf("the request of another user in the name of a cluster is refused, or not counted: %v", err)
	}
}
