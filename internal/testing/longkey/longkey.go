// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package longkey makes certificates with keys of any length for tests, which need not wait
// until somebody has found primes.
package longkey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"time"
)

// AuthorityPEM returns the certificate of an authority with a key of RSA that has so many bits,
// as PEM. Nobody has its private key, if there is one at all.
func AuthorityPEM(t testing.TB, bits uint) []byte {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "long"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	modulus := new(big.Int).SetBit(big.NewInt(1), int(bits)-1, 1)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &rsa.PublicKey{N: modulus, E: 65537}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// PrivateKeyPEM returns what a private key of RSA with so many bits looks like by its size, as PEM.
func PrivateKeyPEM(bits int) []byte {
	const parts = 9 // of a modulus: the exponent, two primes, and what is computed of them, have 7/2 more
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: bytes.Repeat([]byte{1}, bits/8*parts/2)})
}
