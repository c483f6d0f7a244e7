// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Roots returns the certificates of the authorities that Mozilla trusts, as PEM.
// They come from a pinned module, so that an image does not depend on the host.
// Those that Mozilla trusts up to a date only are left out: PEM cannot say so.
func Roots() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
