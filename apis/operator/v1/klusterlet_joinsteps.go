// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Reasons of the condition Joined that only the agent can find; see
// JoinStatusConfigMap.
const (
	// JoinReasonTooManyPendingCSRs: too many certificate signing requests that the
	// agent has made with its certificate are pending on the hub, so it creates no
	// more.
	JoinReasonTooManyPendingCSRs = "TooManyPendingCSRs"
	// JoinReasonClusterDenied: a hub administrator revoked the acceptance of the
	// cluster.
	JoinReasonClusterDenied = "ClusterDenied"
	// JoinReasonClusterAlreadyJoined: the hub has accepted the same cluster under
	// another name, which the message contains.
	JoinReasonClusterAlreadyJoined = "ClusterAlreadyJoined"
	// JoinReasonClusterDeleted: the ManagedCluster was deleted on the hub after
	// the cluster had joined. The agent does not create it again.
	JoinReasonClusterDeleted = "ClusterDeleted"
)
