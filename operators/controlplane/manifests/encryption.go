// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// EncryptionKey is a key of the encryption at rest.
type EncryptionKey struct {
	Name string
	// Secret has 32 bytes.
	Secret []byte
}

// EncryptionConfiguration returns what the API server encrypts Secrets with: the
// first key, if that is wanted. It reads what any of the keys or none encrypted.
func EncryptionConfiguration(p Plane, keys []EncryptionKey) map[string][]byte {
	var providers []string
	for _, key := range keys {
		providers = append(providers, fmt.Sprintf("  - secretbox:\n      keys:\n      - name: %s\n        secret: %s\n",
			key.Name, base64.StdEncoding.EncodeToString(key.Secret)))
	}
	const plain = "  - identity: {}\n"
	if EncryptionEnabled(p) {
		providers = append(providers, plain)
	} else {
		providers = slices.Insert(providers, 0, plain)
	}
	return map[string][]byte{encryptionKey: []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n" +
		"resources:\n- resources:\n  - secrets\n  providers:\n" + strings.Join(providers, ""))}
}

// EncryptionEnabled reports whether new Secrets are to be encrypted.
func EncryptionEnabled(p Plane) bool { return ptr.Deref(p.Spec.Encryption.Enabled, true) }
