// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificate authorities, certificates and signing keys
// of a cluster.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// validity is how long a certificate lasts: longer than any lab does.
const validity = 10 * 365 * 24 * time.Hour

// clockSkew is how far in the past a certificate begins to be valid.
const clockSkew = 5 * time.Minute

// Pair is a key in PEM, and what others need in order to trust it, in PEM: a
// certificate or a bare public key.
type Pair struct {
	Public  []byte
	Private []byte
}

// Request says whom a certificate is for and what it is good for.
type Request struct {
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	Usages        []x509.ExtKeyUsage
}

// Authority is a certificate authority.
type Authority struct {
	Pair
	certificate *x509.Certificate
	key         crypto.Signer
}

// NewAuthority makes a self-signed certificate authority.
func NewAuthority(commonName string) (*Authority, error) {
	key, private, err := newKey()
	if err != nil {
		return nil, err
	}
	config := cert.Config{CommonName: commonName, NotBefore: time.Now().Add(-clockSkew)}
	certificate, err := cert.NewSelfSignedCACert(config, key)
	if err != nil {
		return nil, fmt.Errorf("sign authority %s: %w", commonName, err)
	}
	return &Authority{
		Pair:        Pair{Public: encodeCertificate(certificate.Raw), Private: private},
		certificate: certificate,
		key:         key,
	}, nil
}

// Issue makes a key and signs a certificate for it.
func (a *Authority) Issue(request Request) (Pair, error) {
	key, private, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, fmt.Errorf("make serial number: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: request.CommonName, Organization: request.Organizations},
		DNSNames:     request.DNSNames,
		IPAddresses:  request.IPs,
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  request.Usages,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign certificate for %s: %w", request.CommonName, err)
	}
	return Pair{Public: encodeCertificate(raw), Private: private}, nil
}

// NewSigningKey makes a bare key pair, as service account tokens are signed
// with.
func NewSigningKey() (Pair, error) {
	key, private, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	raw, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return Pair{}, fmt.Errorf("encode public key: %w", err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: raw})
	return Pair{Public: public, Private: private}, nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode key: %w", err)
	}
	return key, private, nil
}

func encodeCertificate(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: raw})
}
