// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native

import (
	"cmp"
	"slices"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// persistentVolumeClaimHealth follows the API of v1: Bound has a volume, Lost had
// one, and conditions tell about a change of size or class. A claim of a
// storage class that waits for its first consumer is Pending until there is a
// pod; the object does not say so, and it is Progressing.
func persistentVolumeClaimHealth(object map[string]any) health.Health {
	switch phase := fields.String(object, "status", "phase"); phase {
	case "Bound":
	case "Lost":
		return health.Degraded.WithReason("ClaimLost", "The claim lost its volume.")
	default:
		return health.Progressing.WithReason("ClaimPending", "The claim is not bound to a volume yet.")
	}
	for _, kind := range []string{"ControllerResizeError", "NodeResizeError", "ModifyVolumeError"} {
		if c := fields.ConditionOf(object, kind); c.True() {
			return health.Degraded.WithReason(kind, "%s", health.SentenceWithCause("The volume cannot be changed", c.Message))
		}
	}
	for _, kind := range []string{"Resizing", "FileSystemResizePending", "ModifyingVolume"} {
		if c := fields.ConditionOf(object, kind); c.True() {
			return health.Progressing.WithReason(kind, "%s", health.SentenceWithCause("The volume is being changed", c.Message))
		}
	}
	return health.Healthy.WithReason("ClaimBound", "The claim is bound to a volume.")
}

func persistentVolumeClaimValues(object map[string]any) []interpret.WellKnownValue {
	return []interpret.WellKnownValue{
		{Name: "PVCPhase", Value: fields.Get(object, "status", "phase")},
		{Name: "PVCCapacity", Value: fields.Get(object, "status", "capacity", "storage")},
		{Name: "PVCVolumeName", Value: fields.Get(object, "spec", "volumeName")},
	}
}

// persistentVolumeClaimHealthVerdict: the claim has a volume.
func persistentVolumeClaimHealthVerdict(object map[string]any) string {
	return interpret.HealthVerdictIf(fields.String(object, "status", "phase") == "Bound")
}

// The annotations by which the controllers of a cluster note how a claim and a volume
// were bound, and who makes the volume.
const (
	annotationBindCompleted     = "pv.kubernetes.io/bind-completed"
	annotationBoundByController = "pv.kubernetes.io/bound-by-controller"
	annotationSelectedNode      = "volume.kubernetes.io/selected-node"
	annotationProvisioner       = "volume.kubernetes.io/storage-provisioner"
	annotationBetaProvisioner   = "volume.beta.kubernetes.io/storage-provisioner"
)

// persistentVolumeClaimPrune: the volume that a controller bound to the claim, and the node
// for which a scheduler chose it, are those of its own cluster. In another one, the claim
// would be Lost. A volume that the user chose is sent.
func persistentVolumeClaimPrune(object map[string]any) map[string]any {
	if fields.Get(object, "metadata", "annotations", annotationBoundByController) != nil {
		object = fields.Without(object, "spec", "volumeName")
	}
	for _, key := range []string{
		annotationBindCompleted, annotationBoundByController, annotationSelectedNode, annotationProvisioner, annotationBetaProvisioner,
	} {
		object = fields.Without(object, "metadata", "annotations", key)
	}
	return object
}

// persistentVolumeClaimAggregate: the claim is Bound if it is so everywhere,
// and Lost if it is so anywhere.
func persistentVolumeClaimAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	if len(items) == 0 {
		return nil
	}
	phase := "Bound"
	for _, item := range items {
		here := cmp.Or(fields.String(item.Status, "phase"), "Pending")
		if phase != "Lost" && here != "Bound" {
			phase = here
		}
	}
	state := map[string]any{"phase": phase}
	for _, name := range []string{"accessModes", "capacity"} {
		value := items[0].Status[name]
		if value != nil && !slices.ContainsFunc(items, func(i interpret.ClusterItem) bool { return !aggregate.SameValue(value, i.Status[name]) }) {
			state[name] = value
		}
	}
	if conditions := aggregate.MergeConditions(template, items, nil); len(conditions) > 0 {
		state["conditions"] = conditions
	}
	return state
}

// persistentVolumeClaimRetained is the volume that the cluster bound to the
// claim.
func persistentVolumeClaimRetained(map[string]any) [][]string {
	return [][]string{{"spec", "volumeName"}}
}
