// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func hashesOf(t *testing.T, bundle []byte) []string {
	t.Helper()
	hashes, err := PublicKeyHashes(bundle)
	if err != nil {
		t.Fatal(err)
	}
	return hashes
}

func TestOnlyPinnedCertificatesAreTrusted(t *testing.T) {
	ours, other := newCA(t), newCA(t)
	both := bytes.Join([][]byte{other, ours}, nil)
	pins, err := ParsePins([]string{strings.ToUpper(hashesOf(t, ours)[0])})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		bundle []byte
		want   []byte
		others []string
	}{
		"the pinned one": {bundle: ours, want: ours},
		"another one":    {bundle: other, others: hashesOf(t, other)},
		"another one along with it": {
			reason: "whoever holds the token may have added it", bundle: both, want: ours, others: hashesOf(t, other),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			trusted, others, err := pins.selectPinned(c.bundle)
			if err != nil || !bytes.Equal(trusted, c.want) || !cmp.Equal(others, c.others) {
				t.Errorf("%s: got %q and %v (%v), want %q and %v", c.reason, trusted, others, err, c.want, c.others)
			}
		})
	}
}

func TestHashesAreThoseOfAllCertificates(t *testing.T) {
	one, two := newCA(t), newCA(t)
	want := append(hashesOf(t, one), hashesOf(t, two)...)
	if diff := cmp.Diff(want, hashesOf(t, bytes.Join([][]byte{one, two, one}, nil))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, bundle := range []string{"", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if _, err := PublicKeyHashes([]byte(bundle)); err == nil {
			t.Errorf("%q has hashes", bundle)
		}
	}
}

func TestParsePinsRefusesWhatIsNoHash(t *testing.T) {
	for _, hash := range []string{"", "sha256:", "sha256:zz", strings.Repeat("0", 64), "sha1:" + strings.Repeat("0", 40), "sha256:" + strings.Repeat("0", 63)} {
		if _, err := ParsePins([]string{hash}); err == nil {
			t.Errorf("%q is taken for a hash", hash)
		}
	}
}
