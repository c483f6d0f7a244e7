// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
)

func persistentVolumeAggregate(_ map[string]any, items []interpret.Item) map[string]any {
	if len(items) == 0 {
		return nil
	}
	return map[string]any{"phase": aggregate.Phase(items, "Pending", "Failed", "Pending", "Available", "Bound", "Released")}
}

// persistentVolumeRetained is the claim that the cluster bound to the volume.
func persistentVolumeRetained(map[string]any) [][]string {
	return [][]string{{"spec", "claimRef"}}
}
