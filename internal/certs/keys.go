// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
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
	publicDER, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding a public key: %w", err)
	}
	private = pem.EncodeToMemory(&pem.Block{Type: pemECKey, Bytes: privateDER})
	public = pem.EncodeToMemory(&pem.Block{Type: pemPublicKey, Bytes: publicDER})
	return private, public, nil
}
