// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestErrorsOfTheHubAreToldApart(t *testing.T) {
	resource := schema.GroupResource{Group: "g", Resource: "r"}
	dial := &url.Error{Op: "Post", URL: "https://hub", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}
	untrusted := &url.Error{Op: "Post", URL: "https://hub", Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}
	cases := map[string]struct {
		err                  error
		byBootstrap, byAgent string
	}{
		"401":                 {apierrors.NewUnauthorized("no"), operatorv1.JoinReasonBootstrapUnauthorized, operatorv1.JoinReasonHubCredentialInvalid},
		"403":                 {apierrors.NewForbidden(resource, "n", nil), operatorv1.JoinReasonBootstrapForbidden, operatorv1.JoinReasonHubPermissionsMissing},
		"unknown authority":   {untrusted, operatorv1.JoinReasonHubCertificateUntrusted, operatorv1.JoinReasonHubCertificateUntrusted},
		"wrong host":          {fmt.Errorf("x: %w", x509.HostnameError{Certificate: &x509.Certificate{}}), operatorv1.JoinReasonHubCertificateUntrusted, operatorv1.JoinReasonHubCertificateUntrusted},
		"expired certificate": {x509.CertificateInvalidError{Reason: x509.Expired}, operatorv1.JoinReasonHubCertificateUntrusted, operatorv1.JoinReasonHubCertificateUntrusted},
		"refused connection":  {dial, operatorv1.JoinReasonHubUnreachable, operatorv1.JoinReasonHubUnreachable},
		"503":                 {apierrors.NewServiceUnavailable("etcd"), operatorv1.JoinReasonHubUnreachable, operatorv1.JoinReasonHubUnreachable},
		"no such API":         {apierrors.NewNotFound(resource, "n"), operatorv1.JoinReasonHubUnreachable, operatorv1.JoinReasonHubUnreachable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := stepReasonOf(explainBootstrapError("creating x", "https://hub", c.err)); got != c.byBootstrap {
				t.Errorf("with the bootstrap kubeconfig: %s, want %s", got, c.byBootstrap)
			}
			if got := stepReasonOf(explainHubError("reading x", "https://hub", c.err)); got != c.byAgent {
				t.Errorf("with the hub credential: %s, want %s", got, c.byAgent)
			}
			if err := explainHubError("reading x", "https://hub", c.err); !errors.Is(err, c.err) {
				t.Errorf("%v does not wrap its cause", err)
			}
		})
	}
}

func TestARefusalByAWebhookIsNoMissingRole(t *testing.T) {
	resource := schema.GroupResource{Group: "g", Resource: "r"}
	const role = "bind it to the hub's ClusterRole"
	for name, c := range map[string]struct {
		cause string
		role  bool
	}{
		"a webhook": {cause: `admission webhook "x" denied the request: 1000 clusters wait for acceptance`},
		"RBAC":      {cause: `User "u" cannot create resource "r" in API group "g" at the cluster scope`, role: true},
	} {
		t.Run(name, func(t *testing.T) {
			err := explainBootstrapError("creating x", "https://hub", apierrors.NewForbidden(resource, "n", errors.New(c.cause)))
			if stepReasonOf(err) != operatorv1.JoinReasonBootstrapForbidden || !strings.Contains(err.Error(), c.cause) || strings.Contains(err.Error(), role) != c.role {
				t.Errorf("the user is told %v", err)
			}
		})
	}
}

func TestTheNameOfARequestFollowsFromItsKey(t *testing.T) {
	a, err := newApplication(identity{Cluster: "c1", Agent: "abcde"}, "https://hub")
	expect.NoError(t, err)
	stored, err := parsePending(pendingSecret("ns", a))
	expect.NoError(t, err)
	was, is := a.requestName(), stored.requestName()
	if was != is || len(was) != len("c1-")+csrSuffixLength {
		t.Errorf("the request is named %q before and %q after storage", was, is)
	}
	csr, err := stored.buildCSR(0)
	expect.NoError(t, err)
	seen := policy.DecideRequest(policy.SigningRequest{
		SignerName: csr.Spec.SignerName, Usages: csr.Spec.Usages, PEM: csr.Spec.Request, ClusterLabel: "c1",
	}, policy.ClusterFacts{}, policy.AutoApproval{})
	f := joinFacts{Application: stored, CSR: csrFact{State: csrWaiting, Name: is}}
	if _, message := f.waitingForCSR(); seen.Key != a.keyFingerprint() || !strings.Contains(message, seen.Key) {
		t.Errorf("the administrator of the hub sees the key %q, and the one of the cluster: %s", seen.Key, message)
	}
	other, err := newApplication(a.identity, "https://hub")
	expect.NoError(t, err)
	if !a.isOurs(csr) || other.isOurs(csr) {
		t.Error("a request is ours if, and only if, it is for our key")
	}
}
