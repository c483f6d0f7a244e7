// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ociimage

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

func TestRootsAreThoseThatAreTrustedWithoutACondition(t *testing.T) {
	rest, err := Roots()
	if err != nil {
		t.Fatal(err)
	}
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || !bytes.Equal(block.Bytes, root.Certificate) {
			t.Fatal("an authority is missing")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			t.Error(err)
		}
	}
	if len(bytes.TrimSpace(rest)) != 0 {
		t.Error("there are more than these authorities")
	}
}
