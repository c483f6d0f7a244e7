// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/longkey"
)

// TestKeysOfOthersAreBounded tries certificates and keys that take long to be used, wherever
// they come from.
func TestKeysOfOthersAreBounded(t *testing.T) {
	signer, err := NewAuthority("signer", time.Now())
	expect.NoError(t, err)
	longest, longer, megabit := longkey.AuthorityPEM(t, RSABitsMax), longkey.AuthorityPEM(t, RSABitsMax+1), longkey.AuthorityPEM(t, 1<<20)
	for name, c := range map[string]struct {
		bundle []byte
		wants  string
		parsed int
	}{
		"one of ours":      {signer.CertPEM, "", 1},
		"the longest":      {longest, "", 1},
		"a longer one":     {longer, `contains a certificate, of "long", that cannot be used: its RSA key has 8193 bits`, 0},
		"one of a megabit": {megabit, "its RSA key has 1048576 bits", 0},
		"behind others":    {slices.Concat(signer.CertPEM, []byte("text\n"), longest, megabit), "its RSA key has 1048576 bits", 2},
		"nothing":          {[]byte("text"), "contains no certificate", 0},
	} {
		_, err := NewPool(c.bundle)
		says(t, name+" in a pool", err, c.wants)
		if c.wants != errNoCertificate.Error() {
			says(t, name+" in a bundle", CheckBundle(c.bundle), c.wants)
		}
		if parsed := ParseBundle(c.bundle); len(parsed) != c.parsed {
			t.Errorf("%s: %d certificates are read, want %d", name, len(parsed), c.parsed)
		}
	}
	for name, c := range map[string]struct {
		cert, key []byte
		wants     string
	}{
		"ours":                            {signer.CertPEM, signer.KeyPEM, ""},
		"a key of a megabit":              {signer.CertPEM, longkey.PrivateKeyPEM(1 << 20), "the private key has"},
		"a chain with a key of a megabit": {slices.Concat(signer.CertPEM, megabit), signer.KeyPEM, "its RSA key has 1048576 bits"},
		"a key of the longest that is none": {
			signer.CertPEM, longkey.PrivateKeyPEM(RSABitsMax), "failed to parse private key", // it is short enough to be looked at
		},
	} {
		_, err := ParsePair(c.cert, c.key)
		says(t, name, err, c.wants)
	}
}

func says(t *testing.T, name string, err error, wants string) {
	t.Helper()
	if (err == nil) != (wants == "") || err != nil && !strings.Contains(err.Error(), wants) {
		t.Errorf("%s: it says %v, want %q", name, err, wants)
	}
}

// TestNoLongKeyIsPublished has a bundle that others have changed.
func TestNoLongKeyIsPublished(t *testing.T) {
	signer, err := NewAuthority("signer", time.Now())
	expect.NoError(t, err)
	plan := PlanRotation(time.Now(), ObservedState{Signer: signer, Bundle: longkey.AuthorityPEM(t, 1<<20), Trusted: [][]byte{longkey.AuthorityPEM(t, 1<<20)}}, nil)
	if !bytes.Equal(plan.Bundle, signer.CertPEM) {
		t.Errorf("it publishes %s", plan.Bundle)
	}
}
