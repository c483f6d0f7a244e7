// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package signing signs with keys of cosign, and verifies with sigstore's
// library, so that everybody else can verify with either, or with openssl.
package signing

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"
)

// keyType and formerKeyType are how cosign marks its private keys.
const (
	keyType       = "ENCRYPTED SIGSTORE PRIVATE KEY"
	formerKeyType = "ENCRYPTED COSIGN PRIVATE KEY"
)

// Key is a private key.
type Key struct {
	private  *ecdsa.PrivateKey
	verifier signature.Verifier
}

// Load reads a private key of cosign.
func Load(content, password []byte) (*Key, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != keyType && block.Type != formerKeyType {
		return nil, errors.New("this is no private key of cosign: make one with \"cosign generate-key-pair\" or \"release keys\"")
	}
	der, err := encrypted.Decrypt(block.Bytes, password)
	if err != nil {
		return nil, fmt.Errorf("decrypting the private key with COSIGN_PASSWORD: %w", err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("reading the private key: %w", err)
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, fmt.Errorf("the private key is a %T; cosign's own are ECDSA keys of curve P-256", parsed)
	}
	verifier, err := signature.LoadECDSAVerifier(&private.PublicKey, crypto.SHA256)
	if err != nil {
		return nil, err
	}
	return &Key{private: private, verifier: verifier}, nil
}

// Generate makes a pair of keys, as PEM.
func Generate(password []byte) (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	if der, err = encrypted.Encrypt(der, password); err != nil {
		return nil, nil, err
	}
	public, err = cryptoutils.MarshalPublicKeyToPEM(&key.PublicKey)
	return cryptoutils.PEMEncode(keyType, der), public, err
}

// Public returns the public key, as PEM.
func (k *Key) Public() ([]byte, error) {
	return cryptoutils.MarshalPublicKeyToPEM(&k.private.PublicKey)
}

// Sign signs a message. The signature is the same each time (RFC 6979), as all of
// a release is: that is why it does not come from sigstore's signer, which takes
// random numbers. It is verified before it is returned.
func (k *Key) Sign(message []byte) (string, error) {
	digest := sha256.Sum256(message)
	signed, err := k.private.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return "", err
	}
	if err := k.verifier.VerifySignature(bytes.NewReader(signed), bytes.NewReader(message)); err != nil {
		return "", fmt.Errorf("verifying the new signature: %w", err)
	}
	return base64.StdEncoding.EncodeToString(signed), nil
}

// Verifier verifies with a public key.
type Verifier struct{ signature.Verifier }

// NewVerifier reads a public key, in PEM.
func NewVerifier(public []byte) (Verifier, error) {
	key, err := cryptoutils.UnmarshalPEMToPublicKey(public)
	if err != nil {
		return Verifier{}, fmt.Errorf("reading the public key: %w", err)
	}
	verifier, err := signature.LoadVerifier(key, crypto.SHA256)
	return Verifier{verifier}, err
}

// Verify verifies the signature of a message.
func (v Verifier) Verify(message []byte, encoded string) error {
	signed, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("the signature is no base64: %w", err)
	}
	return v.VerifySignature(bytes.NewReader(signed), bytes.NewReader(message))
}

// ImagePayload is what is signed for an image: its digest, and the name that it
// claims.
func ImagePayload(image name.Digest) ([]byte, error) {
	return json.Marshal(payload.Cosign{Image: image})
}

// VerifyImage verifies that a signature is that of an image.
func (v Verifier) VerifyImage(image name.Digest, signed []byte, encoded string) error {
	if err := v.Verify(signed, encoded); err != nil {
		return err
	}
	var claim payload.Cosign
	if err := json.Unmarshal(signed, &claim); err != nil {
		return err
	}
	if claim.Image.Name() != image.Name() {
		return fmt.Errorf("the signature is that of %s, not of %s", claim.Image.Name(), image.Name())
	}
	return nil
}
