// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// persistentVolumePrune: the claim that a controller bound to the volume is one of its own
// cluster, and so is the UID of one that the user chose.
func persistentVolumePrune(object map[string]any) map[string]any {
	if fields.Get(object, "metadata", "annotations", annotationBoundByController) != nil {
		object = fields.Without(object, "spec", "claimRef")
	}
	for _, path := range [][]string{
		{"spec", "claimRef", "uid"}, {"spec", "claimRef", "resourceVersion"}, {"metadata", "annotations", annotationBoundByController},
	} {
		object = fields.Without(object, path...)
	}
	return object
}

// persistentVolumeAggregate leaves the time of the last change to the hub's API
// server, which sets it.
func persistentVolumeAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	if len(items) == 0 {
		return nil
	}
	state := fields.Only(fields.Map(template, "status"), "lastPhaseTransitionTime")
	return fields.With(state, aggregate.MergePhases(items, "Pending", "Failed", "Pending", "Available", "Bound", "Released"), "phase")
}

// persistentVolumeRetained is the claim that the cluster bound to the volume.
func persistentVolumeRetained(map[string]any) [][]string {
	return [][]string{{"spec", "claimRef"}}
}
