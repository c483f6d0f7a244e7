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

// shortest is the shortest life of a certificate that Kubernetes signs on
// request, in seconds.
const shortest = 600

// testSigning has certificates signed that last as short as they can, by a
// cluster with a node and one without.
func testSigning(e *environment) {
	for _, cluster := range []string{alpha, gamma} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			e.Fatal(err)
		}
		template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "somebody"}}
		raw, err := x509.CreateCertificateRequest(rand.Reader, template, key)
		if err != nil {
			e.Fatal(err)
		}
		request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw})
		e.apply(cluster, "request.yaml", map[string]any{
			"Request": base64.StdEncoding.EncodeToString(request),
			"Seconds": shortest,
		})
		asked := time.Now()
		e.kubectl(cluster, "certificate", "approve", "somebody")
		e.kubectl(cluster, "wait", "csr/somebody", "--for=jsonpath={.status.certificate}", "--timeout=30s")
		encoded := e.kubectl(cluster, "get", "csr", "somebody", "-o", "jsonpath={.status.certificate}")
		content, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			e.Fatal(err)
		}
		certificates, err := cert.ParseCertsPEM(content)
		if err != nil {
			e.Fatal(err)
		}
		life := certificates[0].NotAfter.Sub(asked)
		e.Logf("%s: a certificate for %d s is valid from %s before its request to %s after it",
			cluster, shortest, asked.Sub(certificates[0].NotBefore).Round(time.Second), life.Round(time.Second))
		if life < (shortest-tolerance)*time.Second || life > (shortest+tolerance)*time.Second {
			e.Errorf("%s: the certificate lasts %s, want %d s", cluster, life, shortest)
		}
	}
}

// tolerance is how much, in seconds, the life of a certificate may differ.
const tolerance = 30

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
