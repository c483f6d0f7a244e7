// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"
)

// tolerance is how much the life of a certificate may differ from what was
// asked for.
const tolerance = 30 * time.Second

// testSigning has certificates signed, by a cluster with a node and by one
// without, whose signing duration limits them.
func testSigning(e *environment) {
	for name, test := range map[string]struct {
		cluster string
		request time.Duration
		want    time.Duration
	}{
		"shortest": {cluster: alpha, request: 10 * time.Minute, want: 10 * time.Minute},
		"longer":   {cluster: alpha, request: time.Hour, want: time.Hour},
		"limited":  {cluster: gamma, request: 10 * time.Minute, want: signingDuration},
	} {
		asked := time.Now()
		certificate := e.sign(test.cluster, name, test.request)
		life := certificate.NotAfter.Sub(asked)
		e.Logf("%s: a certificate for %s is valid from %s before its request to %s after it", test.cluster,
			test.request, asked.Sub(certificate.NotBefore).Round(time.Second), life.Round(time.Second))
		if (life - test.want).Abs() > tolerance {
			e.Errorf("%s: the certificate lasts %s, want %s", test.cluster, life, test.want)
		}
	}
}

// sign has a cluster sign a client certificate.
func (e *environment) sign(cluster, user string, duration time.Duration) *x509.Certificate {
	e.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		e.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: user}}
	raw, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		e.Fatal(err)
	}
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw})
	e.apply(cluster, "request.yaml", map[string]any{
		"Name":    user,
		"Request": base64.StdEncoding.EncodeToString(request),
		"Seconds": int(duration.Seconds()),
	})
	e.kubectl(cluster, "certificate", "approve", user)
	e.kubectl(cluster, "wait", "csr/"+user, "--for=jsonpath={.status.certificate}", "--timeout=30s")
	content, err := base64.StdEncoding.DecodeString(e.kubectl(cluster, "get", "csr", user, "-o", "jsonpath={.status.certificate}"))
	if err != nil {
		e.Fatal(err)
	}
	certificates, err := cert.ParseCertsPEM(content)
	if err != nil {
		e.Fatal(err)
	}
	return certificates[0]
}

// testAuthorization tries what users may not do.
func testAuthorization(e *environment) {
	for _, cluster := range []string{alpha, gamma} {
		output, err := e.tryKubectl(cluster, "get", "secrets", "--as", "somebody", "--as-group", "system:authenticated")
		if err == nil || !strings.Contains(err.Error(), "Forbidden") {
			e.Errorf("%s: a user without a role gets %q (%v)", cluster, output, err)
		}
	}
	node := filepath.Join(e.dir, "clusters", alpha, "pki", "kubelet.kubeconfig")
	as := func(args ...string) (string, error) {
		return e.tryKubectl(alpha, append([]string{"--kubeconfig", node}, args...)...)
	}
	if _, err := as("get", "node", "alpha-node"); err != nil {
		e.Error(err)
	}
	output, err := as("label", "node", "alpha-node", "node-restriction.kubernetes.io/trusted=true")
	if err == nil || !strings.Contains(err.Error(), "is not allowed to modify labels") {
		e.Errorf("a node gives itself a label it may not: %q (%v)", output, err)
	}
}

func testBootstrapToken(e *environment) {
	e.apply(alpha, "token.yaml", nil)
	e.eventually(func() error {
		cmd := e.kubectlCommand(alpha, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}",
			"--kubeconfig", "/dev/null", "--context", "",
			"--server", e.server(alpha),
			"--certificate-authority", filepath.Join(e.dir, "clusters", alpha, "pki", "ca.crt"),
			"--token", "abcdef.0123456789abcdef")
		output, err := run(cmd)
		if err == nil && !strings.HasPrefix(output, "system:bootstrap:") {
			e.Errorf("the token belongs to %q", output)
		}
		return err
	})
}
