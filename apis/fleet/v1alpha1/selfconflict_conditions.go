// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// ConditionSelfConflict is True on what answers for an object that the hub writes
	// without end, since something undoes what it writes: on a binding for its object and
	// its works, on a ManagedCluster, a Placement or a ManifestWorkReplicaSet for itself
	// and what is made of it. The hub writes such an object ever more seldom. Otherwise
	// the condition is absent.
	ConditionSelfConflict = "SelfConflict"
	// ReasonWrittenWithoutEnd is the reason of ConditionSelfConflict.
	ReasonWrittenWithoutEnd = "WrittenWithoutEnd"
)
