// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"bytes"
	"encoding/pem"
	"errors"
	"runtime/debug"

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

// RootsModule returns the module that they come from, with its version.
func RootsModule() (*debug.Module, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil, errors.New("this executable does not say what it was made of")
	}
	for _, module := range info.Deps {
		if module.Path == "golang.org/x/crypto/x509roots/fallback" {
			return module, nil
		}
	}
	return nil, errors.New("the certificates of authorities come from no known module")
}
