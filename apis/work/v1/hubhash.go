// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"crypto/sha256"
	"encoding/hex"
)

// HubHash returns the spec.hubHash of the AppliedManifestWorks of a hub whose API
// server the agent knows by the URL.
func HubHash(hubURL string) string {
	sum := sha256.Sum256([]byte(hubURL))
	return hex.EncodeToString(sum[:])
}
