// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestKeysAreReadOrRefusedWithoutShowingThem(t *testing.T) {
	key := newKey(t)
	cases := map[string]struct {
		read func() error
		want string // empty if it can be read
	}{
		"a public key":         {recipient(key.Recipient().String()), ""},
		"a private key":        {recipient(key.String()), "this is a private key"},
		"no key":               {recipient("me@example.com"), `"me@example.com" is not a public key of age`},
		"a private key's file": {identity("# created: today\n# public key: " + key.Recipient().String() + "\n" + key.String() + "\n"), ""},
		"a file without one":   {identity("# nothing\n"), "it has no private key of age"},
		"a broken key":         {identity(key.String()[:40] + "\n"), "it has no private key of age"},
		"a passphrase":         {passphrase("correct horse battery staple\n"), ""},
		"no passphrase":        {passphrase("\n"), "it is empty"},
		"two lines":            {passphrase("one\ntwo\n"), "it has several lines"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			err := c.read()
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("the error is %v, want one with %q", err, c.want)
			case err != nil && strings.Contains(err.Error(), key.String()[len(secretPrefix):len(secretPrefix)+10]):
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

func recipient(key string) func() error {
	return func() error { _, err := ParseRecipients([]string{key}); return err }
}

func identity(file string) func() error {
	return func() error { _, err := ReadIdentities(strings.NewReader(file)); return err }
}

func passphrase(file string) func() error {
	return func() error { _, err := ReadPassphrase(strings.NewReader(file)); return err }
}

func TestAPassphraseOpensWhatItEncrypts(t *testing.T) {
	right, wrong := Passphrase{words: "right"}, Passphrase{words: "wrong"}
	recipient, err := right.NewRecipient()
	expect.NoError(t, err)
	file, _ := written(t, recipient)
	for _, p := range []Passphrase{right, wrong} {
		identity, err := p.NewIdentity()
		expect.NoError(t, err)
		_, err = open(file, identity)
		if opened := err == nil; opened != (p == right) {
			t.Errorf("the passphrase %q opens it: %t (%v)", p.words, opened, err)
		}
	}
}
