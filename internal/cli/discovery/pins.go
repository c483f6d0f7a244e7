// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"github.com/capstan-io/capstan/internal/server/certs"
)

// hashKind begins each hash of a CA. There is no other kind.
const hashKind = "sha256:"

// Pins are the hashes of the CAs that a user trusts.
type Pins map[string]bool

// ParsePins reads hashes of the form sha256:<64 hexadecimal digits>.
func ParsePins(hashes []string) (Pins, error) {
	pins := Pins{}
	for _, hash := range hashes {
		digits, ok := strings.CutPrefix(strings.ToLower(hash), hashKind)
		if sum, err := hex.DecodeString(digits); !ok || err != nil || len(sum) != sha256.Size {
			return nil, fmt.Errorf("%q is not the hash of a CA: one looks like %s and 64 hexadecimal digits", hash, hashKind)
		}
		pins[hashKind+digits] = true
	}
	return pins, nil
}

// PublicKeyHashes returns the hashes of the public keys of all certificates of a PEM
// encoded bundle, in its order, each once. They are those of kubeadm.
func PublicKeyHashes(bundle []byte) ([]string, error) {
	certificates, err := parseCertificates(bundle)
	if err != nil {
		return nil, err
	}
	var hashes []string
	seen := map[string]bool{}
	for _, certificate := range certificates {
		if hash := certs.PublicKeyPin(certificate); !seen[hash] {
			seen[hash] = true
			hashes = append(hashes, hash)
		}
	}
	return hashes, nil
}

func parseCertificates(bundle []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read a CA certificate: %w", err)
		}
		certificates = append(certificates, certificate)
	}
	if len(certificates) == 0 {
		return nil, errors.New("there is no CA certificate in it")
	}
	return certificates, nil
}

// selectPinned returns the part of a bundle that is pinned, and the hashes of the
// others. A certificate that comes along with a pinned one is not trusted for
// that: whoever holds the token could have added it.
func (p Pins) selectPinned(bundle []byte) (pinned []byte, others []string, err error) {
	certificates, err := parseCertificates(bundle)
	if err != nil {
		return nil, nil, err
	}
	var kept bytes.Buffer
	for _, certificate := range certificates {
		if hash := certs.PublicKeyPin(certificate); !p[hash] {
			others = append(others, hash)
			continue
		}
		if err := pem.Encode(&kept, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}); err != nil {
			return nil, nil, fmt.Errorf("write a CA certificate: %w", err)
		}
	}
	return kept.Bytes(), others, nil
}
