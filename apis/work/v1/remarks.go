// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "strings"

// What messages of the condition Applied of an object begin with that is applied, and of which
// there is more to say.
const (
	// ManifestMessageWarning: something of the manifest is not in the cluster, or the other
	// way round.
	ManifestMessageWarning = "Warning: "
	// ManifestMessageAdopted: the object was there before, and has lost what somebody had
	// brought by hand.
	ManifestMessageAdopted = "The object was there before. "
)

// IsManifestRemark reports whether a message of the condition Applied of an object that is applied is
// for whoever wrote the manifest, and not only for those who run the agent.
func IsManifestRemark(message string) bool {
	return strings.HasPrefix(message, ManifestMessageWarning) || strings.HasPrefix(message, ManifestMessageAdopted)
}
