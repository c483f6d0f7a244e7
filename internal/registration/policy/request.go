// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/server/certs"
)

// RequestBytesMax is the size up to which a request is read at all. An agent's
// has less than 1 KiB.
const RequestBytesMax = 8 << 10

// rsaBitsMin is the size from which on an RSA key is taken for safe.
const rsaBitsMin = 2048

// fingerprintPrefix says which hash a fingerprint is.
const fingerprintPrefix = "sha256:"

var (
	oidCommonName   = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidOrganization = asn1.ObjectIdentifier{2, 5, 4, 10}
)

// certificateSubject is who a certificate would be for.
type certificateSubject struct {
	cluster, agent string
	// key is the fingerprint of the public key. Only its owner can make a request
	// with it, as requests are signed.
	key string
}

// parseSubject says who the certificate would be for. It returns an error
// unless the request asks for exactly one agent of one cluster and for nothing
// else: no further organization, name, address or extension.
func parseSubject(request []byte) (certificateSubject, error) {
	csr, err := parseRequest(request)
	if err != nil {
		return certificateSubject{}, err
	}
	if len(csr.Extensions) > 0 {
		return certificateSubject{}, fmt.Errorf("it requests X.509 extensions such as subject alternative names, which agents may not have")
	}
	var commonName string
	var organizations []string
	for _, name := range csr.Subject.Names {
		value, ok := name.Value.(string)
		switch {
		case ok && name.Type.Equal(oidCommonName) && commonName == "":
			commonName = value
		case ok && name.Type.Equal(oidOrganization):
			organizations = append(organizations, value)
		default:
			return certificateSubject{}, fmt.Errorf("its subject has more than one common name and organizations")
		}
	}
	cluster, agent, ok := agentOf(commonName)
	if !ok {
		return certificateSubject{}, fmt.Errorf("its common name %q is not of the form %s<cluster>:<agent>", commonName, clusterv1.UserPrefix)
	}
	if clusterv1.AgentGroup(cluster) == clusterv1.GroupManagedClusters {
		return certificateSubject{}, fmt.Errorf("no cluster may have the name %q, which matches all clusters", cluster)
	}
	slices.Sort(organizations)
	want := []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters}
	slices.Sort(want)
	if !slices.Equal(organizations, want) {
		return certificateSubject{}, fmt.Errorf("its organizations are %q, not exactly %q", organizations, want)
	}
	return certificateSubject{cluster: cluster, agent: agent, key: KeyFingerprint(csr.RawSubjectPublicKeyInfo)}, nil
}

// KeyFingerprint is by what the agent and the administrator of the hub know the agent's
// public key, which is given as a PKIX structure in DER. It is the whole hash: one could
// make a key for the first few digits.
func KeyFingerprint(publicKey []byte) string {
	sum := sha256.Sum256(publicKey)
	return fingerprintPrefix + hex.EncodeToString(sum[:])
}

// CertifiedAgent returns the cluster and the agent that a certificate for the request
// is for. It is an error if the request is not one of an agent.
func CertifiedAgent(request SigningRequest) (cluster, agent string, err error) {
	if request.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return "", "", fmt.Errorf("the signer is %q, not %q", request.SignerName, certificatesv1.KubeAPIServerClientSignerName)
	}
	asked, err := parseSubject(request.PEM)
	return asked.cluster, asked.agent, err
}

func parseRequest(request []byte) (*x509.CertificateRequest, error) {
	if len(request) == 0 || len(request) > RequestBytesMax {
		return nil, fmt.Errorf("it is empty or larger than %d bytes", RequestBytesMax)
	}
	block, rest := pem.Decode(request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("it is not one PEM block CERTIFICATE REQUEST")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it is not a certificate request: %w", err)
	}
	if err := checkKey(csr); err != nil { // before it is used
		return nil, err
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("it is not signed with its own key: %w", err)
	}
	return csr, nil
}

func checkKey(csr *x509.CertificateRequest) error {
	switch key := csr.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if key.N.BitLen() < rsaBitsMin {
			return fmt.Errorf("its RSA key has %d bits, fewer than %d", key.N.BitLen(), rsaBitsMin)
		}
		return certs.CheckPublicKey(key) //nolint:wrapcheck // it says what is wrong with the key
	default:
		return fmt.Errorf("its key is of an unknown kind %T", key)
	}
}

// checkUsages allows what a client certificate needs. Agents of OCM ask for
// key encipherment with every kind of key, and it gives no power over the hub.
func checkUsages(usages []certificatesv1.KeyUsage) error {
	allowed := []certificatesv1.KeyUsage{
		certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
	}
	for _, usage := range usages {
		if !slices.Contains(allowed, usage) {
			return fmt.Errorf("it requests the key usage %q; agents may only have %q", usage, allowed)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("it does not request the key usage %q", certificatesv1.UsageClientAuth)
	}
	return nil
}
