// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// persistentVolumeClaim follows the API of v1: Bound has a volume, Lost had
// one, and conditions tell about a change of size or class. A claim of a
// storage class that waits for its first consumer is Pending until there is a
// pod; the object does not say so, and it is Progressing.
func persistentVolumeClaim(object map[string]any) Health {
	switch phase := fields.String(object, "status", "phase"); phase {
	case "Bound":
	case "Lost":
		return degraded("ClaimLost", "The claim's volume is gone.")
	default:
		return progressing("ClaimPending", "The claim has no volume yet.")
	}
	for _, kind := range []string{"ControllerResizeError", "NodeResizeError", "ModifyVolumeError"} {
		if c := fields.ConditionOf(object, kind); c.True() {
			return degraded(kind, "%s", because("The volume cannot be changed", c.Message))
		}
	}
	for _, kind := range []string{"Resizing", "FileSystemResizePending", "ModifyingVolume"} {
		if c := fields.ConditionOf(object, kind); c.True() {
			return progressing(kind, "%s", because("The volume is being changed", c.Message))
		}
	}
	return healthy("ClaimBound", "The claim has a volume.")
}
