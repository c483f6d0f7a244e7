// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Further annotations on a ManagedCluster.
const (
	// AnnotationJoinRequestedBy is the hub user whose certificate request the hub
	// approved automatically for this member. Further initial requests are approved
	// automatically only for this user.
	AnnotationJoinRequestedBy = "cluster.open-cluster-management.io/join-requested-by"
	// AnnotationJoinKey is the SHA-256 hash of the public key in that request, by
	// which the hub recognizes the same agent. Both are written together.
	AnnotationJoinKey = "cluster.open-cluster-management.io/join-key"
	// AnnotationAgents is a comma-separated list of the names of the agents that
	// were given a certificate since the ManagedCluster was created. The hub writes
	// it, and gives the permissions of the member to them. "*", alone or beside
	// names, stands for all agents with a certificate of the member.
	AnnotationAgents = "cluster.open-cluster-management.io/agents"
	// AnnotationDetachDeadline is how long after the deletion of a ManagedCluster
	// ("5m", "0s") the hub waits for an agent that does not respond, before it
	// removes the finalizers of what remains in the member's namespace. What was
	// delivered to the member stays there. Without it the hub waits indefinitely.
	AnnotationDetachDeadline = "cluster.open-cluster-management.io/detach-deadline"
	// AnnotationClusterUID is the UID of the kube-system namespace of the cluster
	// whose agent created the ManagedCluster. The agent writes it, so it is not
	// verified; see AnnotationClusterID of ClusterConnection.
	AnnotationClusterUID = "agent.open-cluster-management.io/cluster-uid"
)

// AnnotationAwaitingAcceptance is on a ManagedCluster that was created without being
// accepted, until it is; not if that was before the hub knew of it. The hub's webhook
// writes it and lets nobody else change it. The value identifies who created it: the
// first 16 hexadecimal digits of the SHA-256 of the user name, by which the hub limits
// how many of these one user may have.
const AnnotationAwaitingAcceptance = "fleet.capstan.io/awaiting-acceptance"

// AnnotationRegisteredByAcceptor is "true" on a ManagedCluster that was created without
// being accepted, until it is, by a user who could have accepted it. The hub's webhook
// writes it and lets nobody else change it. Works may be made in the namespace of the
// same name, which may have been there for another purpose: who registers a cluster with
// a bootstrap token must not have objects of the hub written into the namespace of a
// tenant by the choice of a name.
const AnnotationRegisteredByAcceptor = "fleet.capstan.io/registered-by-acceptor"

// LabelAwaitingAcceptance is what earlier releases wrote in the place of
// AnnotationAwaitingAcceptance. The hub replaces it: clients compare the labels of a new
// ManagedCluster with those that they sent.
const LabelAwaitingAcceptance = AnnotationAwaitingAcceptance

// AwaitingMarkOf returns whom a ManagedCluster waits for, as AwaitingMark says it, or ""
// if it does not wait.
func AwaitingMarkOf(cluster metav1.Object) string {
	if mark := cluster.GetAnnotations()[AnnotationAwaitingAcceptance]; mark != "" {
		return mark
	}
	return cluster.GetLabels()[LabelAwaitingAcceptance]
}

// AwaitingMark returns the value of AnnotationAwaitingAcceptance that stands for a user.
// It is no longer than a user name may be, and can be printed as it is.
func AwaitingMark(user string) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:8])
}

// TaintUnschedulable is the key of the taint, with effect NoSelectIfNew, of a
// member that an administrator has cordoned: it keeps its workloads and gets no
// new ones.
const TaintUnschedulable = "fleet.capstan.io/unschedulable"

// Further reasons of HubAcceptedManagedCluster, and of DuplicateIdentity.
const (
	// ManagedClusterReasonNamespaceUnusable (False): the namespace named after the
	// member cannot be used: it belongs to something else, is reserved, or is
	// being deleted. The message says what to do.
	ManagedClusterReasonNamespaceUnusable = "NamespaceUnusable"
	// ManagedClusterReasonAlreadyJoined: the hub has accepted the same cluster
	// under another name, which the message contains.
	ManagedClusterReasonAlreadyJoined = "AlreadyJoined"
)

// JoinAnnotations are the keys of the annotations of a ManagedCluster by which the hub
// knows whom it let in. Changing one needs the right to accept the cluster.
func JoinAnnotations() []string {
	return []string{AnnotationAgents, AnnotationAutomaticallyAcceptedOn, AnnotationJoinKey, AnnotationJoinRequestedBy}
}
