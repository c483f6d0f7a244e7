// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Condition type and reasons of ManagedClusterSetBinding.
const (
	// ManagedClusterSetBindingConditionBound reports whether the set exists, so
	// that the namespace can use it.
	ManagedClusterSetBindingConditionBound = "Bound"

	// ManagedClusterSetBindingReasonBound (True): the set exists.
	ManagedClusterSetBindingReasonBound = "ClusterSetBound"
	// ManagedClusterSetBindingReasonNotFound (False): there is no such set.
	ManagedClusterSetBindingReasonNotFound = "ClusterSetNotFound"
)
