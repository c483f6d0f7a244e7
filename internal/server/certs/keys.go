// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
)

const pemPublicKey = "PUBLIC KEY"

// NewSigningKey makes a key without a certificate, for what signs tokens, and
// the public key that verifies them, both as PEM.
func NewSigningKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key: %w", err)
	}
	privateDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a private key: %w", err)
	}
	private = pem.EncodeToMemory(&pem.Block{Type: pemECKey, Bytes: privateDER})
	public, err = PublicKey(private)
	return private, public, err
}

// PublicKey returns the public key that belongs to a key of NewSigningKey, as PEM.
func PublicKey(private []byte) ([]byte, error) {
	block, _ := pem.Decode(private)
	if block == nil || block.Type != pemECKey {
		return nil, fmt.Errorf("there is no private key of type %q", pemECKey)
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading a private key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding a public key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPublicKey, Bytes: der}), nil
}

// KeyID is how a token names the key that signed it, by its public key as PEM.
func KeyID(public []byte) string {
	block, _ := pem.Decode(public)
	if block == nil {
		return ""
	}
	sum := sha256.Sum256(block.Bytes)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
