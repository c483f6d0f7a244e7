// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import "github.com/capstan-io/capstan/internal/interpret/fields"

func persistentVolumeClaim(object map[string]any) []found {
	return []found{
		{"PVCPhase", status(object, "phase")},
		{"PVCCapacity", fields.Get(object, "status", "capacity", "storage")},
		{"PVCVolumeName", fields.Get(object, "spec", "volumeName")},
	}
}
