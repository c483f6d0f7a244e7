// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// Who may write a Secret, a kubeconfig or a bundle chooses the keys in it, and what is
// computed with a key of RSA grows with the square of its length, or worse: hours with one
// of a megabit. These are the bounds of all keys that others have chosen.
const (
	// RSABitsMax is how long a key of RSA may be. It is what crypto/tls takes of the
	// certificates that a peer shows, but not of those by which it verifies them. The
	// exponent needs no bound of its own: crypto/rsa takes none of more than 31 bits.
	RSABitsMax = 8192
	// keyBytesMax is how long a private key may be: one of RSABitsMax has 6.4 KB in PEM.
	// It is looked at before the key is parsed, which checks that its primes are some.
	keyBytesMax = 8 << 10
)

// errNoCertificate says that a bundle has nothing to verify with.
var errNoCertificate = errors.New("contains no certificate")

// CheckKey refuses a private key, as PEM, that takes too long to be used. As with those of
// the functions below, the error goes on from what names the key.
func CheckKey(key []byte) error {
	if len(key) > keyBytesMax {
		return fmt.Errorf("has %d bytes, more than %d: use an RSA key of at most %d bits, or one on an elliptic curve", len(key), keyBytesMax, RSABitsMax)
	}
	return nil
}

// CheckPublicKey refuses a public key that takes too long to verify with.
func CheckPublicKey(key any) error {
	if key, is := key.(*rsa.PublicKey); is && key.N.BitLen() > RSABitsMax {
		return fmt.Errorf("its RSA key has %d bits, more than %d: use a shorter one, or one on an elliptic curve", key.N.BitLen(), RSABitsMax)
	}
	return nil
}

// CheckBundle refuses certificates, as PEM, if the key of one takes too long to verify
// with. What is no certificate is not looked at.
func CheckBundle(bundle []byte) error {
	_, err := boundedCertificates(bundle)
	return err
}

// NewPool returns what to verify with by a bundle. It fails if that has no certificate, or
// one whose key takes too long to verify with.
func NewPool(bundle []byte) (*x509.CertPool, error) {
	list, err := boundedCertificates(bundle)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, errNoCertificate
	}
	pool := x509.NewCertPool()
	for _, cert := range list {
		pool.AddCert(cert)
	}
	return pool, nil
}

// KeyPair reads a certificate with its private key, both as PEM. It fails if they do not
// belong together, or take too long to be used.
func KeyPair(certPEM, keyPEM []byte) (tls.Certificate, error) {
	if err := CheckKey(keyPEM); err != nil {
		return tls.Certificate{}, fmt.Errorf("the private key %w", err)
	}
	if err := CheckBundle(certPEM); err != nil {
		return tls.Certificate{}, fmt.Errorf("the certificate %w", err)
	}
	return tls.X509KeyPair(certPEM, keyPEM) //nolint:wrapcheck // in its place
}

// boundedCertificates returns the certificates of a bundle. It fails if the key of one
// takes too long to verify with.
func boundedCertificates(bundle []byte) ([]*x509.Certificate, error) {
	list := certificatesOf(bundle)
	for _, cert := range list {
		if err := CheckPublicKey(cert.PublicKey); err != nil {
			return nil, fmt.Errorf("contains a certificate, of %.100q, that cannot be used: %w", cert.Subject.CommonName, err)
		}
	}
	return list, nil
}

// certificatesOf returns the certificates of a bundle, whatever their keys are.
func certificatesOf(bundle []byte) []*x509.Certificate {
	var list []*x509.Certificate
	for {
		var block *pem.Block
		block, bundle = pem.Decode(bundle)
		if block == nil {
			return list
		}
		if block.Type != pemCertificate {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			list = append(list, cert)
		}
	}
}
