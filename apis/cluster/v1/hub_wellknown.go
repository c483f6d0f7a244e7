// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Annotations of our own on a ManagedCluster.
const (
	// AnnotationJoinRequestedBy has the hub user whose certificate request the hub
	// approved by itself for this member. Only this user's further first requests
	// are approved automatically once the member has joined.
	AnnotationJoinRequestedBy = "cluster.open-cluster-management.io/join-requested-by"
	// AnnotationJoinKey has the SHA-256 hash of the public key in that request, by
	// which the hub knows the same agent again. It is written with the former.
	AnnotationJoinKey = "cluster.open-cluster-management.io/join-key"
	// AnnotationDetachDeadline is a duration ("5m", "0s") after the deletion of a
	// ManagedCluster at which the hub gives up waiting for an agent that does not
	// answer, and takes the finalizers off what remains in the member's namespace.
	// What was delivered to the member stays there. Without it the hub waits.
	AnnotationDetachDeadline = "cluster.open-cluster-management.io/detach-deadline"
	// AnnotationClusterUID has the UID of the namespace kube-system of the cluster
	// whose agent created the ManagedCluster. The agent writes it, so it is a claim
	// only; see AnnotationClusterID of ClusterConnection.
	AnnotationClusterUID = "agent.open-cluster-management.io/cluster-uid"
)

// TaintUnschedulable is the key of the taint, with effect NoSelectIfNew, of a
// member that an administrator has cordoned: it keeps what it has and gets
// nothing new.
const TaintUnschedulable = "fleet.capstan.io/unschedulable"

// Further reasons of HubAcceptedManagedCluster, and of DuplicateIdentity.
const (
	// ManagedClusterReasonNamespaceUnusable (False): the namespace with the name
	// of the member is not there for it: it belongs to something else, is
	// reserved, or is being deleted. The message says what to do.
	ManagedClusterReasonNamespaceUnusable = "NamespaceUnusable"
	// ManagedClusterReasonAlreadyJoined: the hub has accepted the same cluster under
	// another name, which the message tells.
	ManagedClusterReasonAlreadyJoined = "AlreadyJoined"
)
