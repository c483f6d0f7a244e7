// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/rand"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// TestNoLongKeyOfARequestIsUsed has somebody ask with a key that fills his request. To find
// out whether it has signed the request takes long, for each of those that
// wait.
func TestNoLongKeyOfARequestIsUsed(t *testing.T) {
	const bits = 22_000
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), bits))
	expect.NoError(t, err)
	n.SetBit(n, 0, 1).SetBit(n, bits-1, 1)
	key, err := asn1.Marshal(struct {
		N *big.Int
		E int
	}{n, 1<<31 - 1})
	expect.NoError(t, err)
	subject, err := asn1.Marshal(pkix.Name{
		CommonName: clusterv1.AgentUser("c", "a"), Organization: []string{clusterv1.AgentGroup("c"), clusterv1.GroupManagedClusters},
	}.ToRDNSequence())
	expect.NoError(t, err)
	type spki struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	type tbs struct {
		Version    int
		Subject    asn1.RawValue
		Key        spki
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	type csr struct {
		TBS       tbs
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}
	rsa, sha := asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}
	der, err := asn1.Marshal(csr{
		TBS: tbs{
			Subject: asn1.RawValue{FullBytes: subject},
			Key:     spki{pkix.AlgorithmIdentifier{Algorithm: rsa, Parameters: asn1.NullRawValue}, asn1.BitString{Bytes: key, BitLength: 8 * len(key)}},
		},
		Algorithm: pkix.AlgorithmIdentifier{Algorithm: sha, Parameters: asn1.NullRawValue},
		Signature: asn1.BitString{Bytes: n.Bytes()[: bits/8-1 : bits/8-1], BitLength: 8 * (bits/8 - 1)},
	})
	expect.NoError(t, err)
	request := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	decision := DecideRequest(SigningRequest{
		SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		Username: "joiner", PEM: request, ClusterLabel: "c",
	}, ClusterFacts{Exists: true}, AutoApproval{})
	if decision.Verdict != Refuse || !strings.Contains(decision.Message, "its RSA key has 22000 bits, more than 8192") {
		t.Errorf("%s: %s, want that it is refused for its key", decision.Verdict, decision.Message)
	}
}
