// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Condition type and reasons of ManagedClusterSet.
const (
	// ManagedClusterSetConditionEmpty reports whether the set has no member.
	ManagedClusterSetConditionEmpty = "ClusterSetEmpty"

	// ManagedClusterSetReasonNoClusterMatched (True): the set has no member.
	ManagedClusterSetReasonNoClusterMatched = "NoClusterMatched"
	// ManagedClusterSetReasonClustersSelected (False): the set has members; the
	// message begins with their number ("3 ManagedClusters selected").
	ManagedClusterSetReasonClustersSelected = "ClustersSelected"
)
