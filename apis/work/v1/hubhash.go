// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"crypto/sha256"
	"encoding/hex"
)

// HubHash returns spec.hubHash of the AppliedManifestWorks for the hub at the
// URL, as the agent's kubeconfig has it.
func HubHash(hubURL string) string {
	sum := sha256.Sum256([]byte(hubURL))
	return hex.EncodeToString(sum[:])
}
