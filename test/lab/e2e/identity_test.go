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
)

func testSigning(e *environment) {
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
	e.apply(alpha, "request.yaml", map[string]any{"Request": base64.StdEncoding.EncodeToString(request)})
	e.kubectl(alpha, "certificate", "approve", "somebody")
	e.kubectl(alpha, "wait", "csr/somebody", "--for=jsonpath={.status.certificate}", "--timeout=30s")
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
