// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentrequest makes what agents ask for their certificates by.
package agentrequest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// NewRequest returns a request in PEM, as an agent of a cluster makes it with a new key, and the
// public part of the key in DER.
func NewRequest(t testing.TB, cluster, agent string) (request, public []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err = x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: clusterv1.AgentUser(cluster, agent), Organization: []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters},
	}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), public
}
