// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package signing

import (
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
)

func newKey(t *testing.T) (*Key, Verifier) {
	t.Helper()
	private, public, err := Generate([]byte("password"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := Load(private, []byte("password"))
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return key, verifier
}

func TestASignatureIsTheSameEachTimeAndThatOfItsMessageAndKey(t *testing.T) {
	key, verifier := newKey(t)
	_, other := newKey(t)
	signature, err := key.Sign([]byte("message"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := key.Sign([]byte("message")); err != nil || again != signature {
		t.Errorf("the same message gives %s and %s (%v)", signature, again, err)
	}
	if err := verifier.Verify([]byte("message"), signature); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"another message":   verifier.Verify([]byte("massage"), signature),
		"another key":       other.Verify([]byte("message"), signature),
		"no signature":      verifier.Verify([]byte("message"), ""),
		"what is no base64": verifier.Verify([]byte("message"), "?"),
	} {
		if err == nil {
			t.Errorf("%s is taken for signed", name)
		}
	}
}

func TestAnImageIsSignedWithItsDigestAndName(t *testing.T) {
	key, verifier := newKey(t)
	images := make([]name.Digest, 0, 3)
	for _, text := range []string{
		"quay.io/capstan-io/capstan@sha256:" + strings.Repeat("a", 64),
		"quay.io/capstan-io/capstan@sha256:" + strings.Repeat("b", 64),
		"quay.io/capstan-io/other@sha256:" + strings.Repeat("a", 64),
	} {
		image, err := name.NewDigest(text)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	payload, err := ImagePayload(images[0])
	if err != nil {
		t.Fatal(err)
	}
	// What containers/image, and with it every verifier, wants there.
	want := `{"critical":{"identity":{"docker-reference":"quay.io/capstan-io/capstan"},"image":{"docker-manifest-digest":"sha256:` +
		strings.Repeat("a", 64) + `"},"type":"cosign container image signature"},"optional":null}`
	if string(payload) != want {
		t.Errorf("signed is %s, want %s", payload, want)
	}
	signature, err := key.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	for i, image := range images {
		if err := verifier.VerifyImage(image, payload, signature); (err == nil) != (i == 0) {
			t.Errorf("%s: %v", image, err)
		}
	}
}

func TestKeysThatAreNone(t *testing.T) {
	private, public, err := Generate([]byte("password"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		content, password []byte
		want              string
	}{
		"another password": {private, []byte("other"), "COSIGN_PASSWORD"},
		"a public key":     {public, []byte("password"), "no private key of cosign"},
		"no key":           {[]byte("text"), nil, "no private key of cosign"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(c.content, c.password); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
