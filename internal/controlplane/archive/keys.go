// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

const (
	// secretPrefix begins the private keys of age, which are no recipients.
	secretPrefix = "AGE-SECRET-KEY-" //nolint:gosec // how keys begin, and none
	// keyFileMax limits files with keys or a passphrase.
	keyFileMax = 64 << 10
)

// ParseRecipients returns those with the public keys.
func ParseRecipients(keys []string) ([]age.Recipient, error) {
	var all []age.Recipient
	for _, key := range keys {
		if strings.HasPrefix(strings.ToUpper(strings.TrimSpace(key)), secretPrefix) {
			return nil, errors.New("this is a private key; give the public one of it, which begins with age1 (age-keygen -y prints it)")
		}
		parsed, err := age.ParseRecipients(strings.NewReader(key))
		if err != nil {
			return nil, fmt.Errorf("%q is not a public key of age, such as age-keygen prints: %w", key, err)
		}
		all = append(all, parsed...)
	}
	return all, nil
}

// ReadIdentities reads private keys, as age-keygen writes them.
func ReadIdentities(file io.Reader) ([]age.Identity, error) {
	identities, err := age.ParseIdentities(io.LimitReader(file, keyFileMax))
	if err != nil {
		// The error may repeat a line of the file.
		return nil, errors.New("it has no private key of age, which begins with " + secretPrefix + " (age-keygen makes one), or something else, too")
	}
	return identities, nil
}

// Passphrase is what an archive is encrypted with instead of a key.
type Passphrase struct{ words string }

// ReadPassphrase reads one: the first and only line of a file.
func ReadPassphrase(file io.Reader) (Passphrase, error) {
	text, err := io.ReadAll(io.LimitReader(file, keyFileMax))
	if err != nil {
		return Passphrase{}, fmt.Errorf("reading the passphrase: %w", err)
	}
	words := strings.TrimRight(string(text), "\r\n")
	switch {
	case words == "":
		return Passphrase{}, errors.New("it is empty: its first line has to be the passphrase")
	case strings.ContainsAny(words, "\r\n"):
		return Passphrase{}, errors.New("it has several lines: its only line has to be the passphrase")
	}
	return Passphrase{words: words}, nil
}

// NewRecipient encrypts with the passphrase. Both take a second, on purpose.
func (p Passphrase) NewRecipient() (age.Recipient, error) {
	recipient, err := age.NewScryptRecipient(p.words)
	if err != nil {
		return nil, fmt.Errorf("preparing the passphrase: %w", err)
	}
	return recipient, nil
}

// NewIdentity decrypts with the passphrase.
func (p Passphrase) NewIdentity() (age.Identity, error) {
	identity, err := age.NewScryptIdentity(p.words)
	if err != nil {
		return nil, fmt.Errorf("preparing the passphrase: %w", err)
	}
	return identity, nil
}
