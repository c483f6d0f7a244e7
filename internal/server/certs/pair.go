// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	// AuthorityLifetime is how long a signer is valid.
	AuthorityLifetime = 365 * 24 * time.Hour
	// LeafLifetime is how long any other certificate is valid.
	LeafLifetime = 30 * 24 * time.Hour

	// backdate makes a certificate valid for a server whose clock is behind ours.
	backdate = 5 * time.Minute

	serialBits = 128

	pemCertificate = "CERTIFICATE"
	pemECKey       = "EC PRIVATE KEY"
)

// CertificatePair is a certificate with its private key.
type CertificatePair struct {
	// CertPEM and KeyPEM are as they are stored.
	CertPEM, KeyPEM []byte
	// Certificate is the first one of CertPEM.
	Certificate *x509.Certificate
	key         crypto.Signer
}

// ParsePair reads a pair as it is stored in a TLS secret. It fails if a part is
// missing, the key is not that of the certificate, or takes too long to be used.
func ParsePair(certPEM, keyPEM []byte) (*CertificatePair, error) {
	if len(certPEM) == 0 || len(keyPEM) == 0 {
		return nil, errors.New("certificate or key is missing")
	}
	parsed, err := KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading a certificate with its key: %w", err)
	}
	key, ok := parsed.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a key of type %T cannot sign", parsed.PrivateKey)
	}
	return &CertificatePair{CertPEM: certPEM, KeyPEM: keyPEM, Certificate: parsed.Leaf, key: key}, nil
}

// NewAuthority makes a signer whose name starts with the given one.
func NewAuthority(name string, now time.Time) (*CertificatePair, error) {
	return newAuthority(name, AuthorityLifetime, now)
}

func newAuthority(name string, lifetime time.Duration, now time.Time) (*CertificatePair, error) {
	template := &x509.Certificate{
		// Signers with the same subject and different keys would be mixed up.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s@%d", name, now.UnixNano())},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	return signCertificate(template, nil)
}

// NewServing makes a certificate for a server of the hosts, valid no longer
// than its signer is.
func NewServing(signer *CertificatePair, hosts []string, now time.Time) (*CertificatePair, error) {
	return NewLeaf(signer, Leaf{Hosts: hosts}, now)
}

// NewLeaf makes the certificate, valid no longer than its signer is.
func NewLeaf(signer *CertificatePair, leaf Leaf, now time.Time) (*CertificatePair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: leaf.User, Organization: leaf.Groups},
		NotBefore:             now.Add(-backdate),
		NotAfter:              earlierTime(now.Add(cmp.Or(leaf.Lifetime, LeafLifetime)), signer.Certificate.NotAfter),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
	}
	if leaf.User != "" {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	if len(leaf.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	switch {
	case len(template.ExtKeyUsage) == 0:
		return nil, errors.New("a certificate needs a host or a user")
	case leaf.User == "":
		template.Subject.CommonName = leaf.Hosts[0]
	}
	for _, host := range leaf.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return signCertificate(template, signer)
}

// signCertificate makes a key and a certificate for it; without a signer it signs itself.
func signCertificate(template *x509.Certificate, signer *CertificatePair) (*CertificatePair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialBits))
	if err != nil {
		return nil, fmt.Errorf("drawing a serial number: %w", err)
	}
	template.SerialNumber = serial
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	parent := template
	signingKey := crypto.Signer(key)
	if signer != nil {
		parent = signer.Certificate
		signingKey = signer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signingKey)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %q: %w", template.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of %q: %w", template.Subject.CommonName, err)
	}
	return ParsePair(
		pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: pemECKey, Bytes: keyDER}),
	)
}

// ParseBundle returns the certificates of a bundle. What is not a certificate in it is
// left out, and a certificate whose key takes too long to verify with: a bundle that
// someone damaged must not stop its repair.
func ParseBundle(bundle []byte) []*x509.Certificate {
	return slices.DeleteFunc(certificatesOf(bundle), func(cert *x509.Certificate) bool { return CheckPublicKey(cert.PublicKey) != nil })
}

// EncodeBundle returns the certificates as PEM.
func EncodeBundle(list []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, cert := range list {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: cert.Raw}))
	}
	return out.Bytes()
}

// PublicKeyPins returns the hashes of the public keys of all certificates of a bundle,
// sorted, each once. They are those that kubeadm takes.
func PublicKeyPins(bundle []byte) []string {
	var pins []string
	for _, cert := range ParseBundle(bundle) {
		pins = append(pins, PublicKeyPin(cert))
	}
	slices.Sort(pins)
	return slices.Compact(pins)
}

// PublicKeyPin returns the hash of the public key of a certificate.
func PublicKeyPin(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func earlierTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
