// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The Secret with the credential for a Push cluster, in the namespace of the
// cluster on the hub.
const (
	// DefaultSecretName is the name of a Secret that spec.secretRef does not give.
	// The push agent may read the Secret of this name of each Push cluster; another
	// name has to be granted to it.
	DefaultSecretName = "cluster-connection"
	// SecretKeyToken is the key of the bearer token.
	SecretKeyToken = "token"
	// SecretKeyCABundle is the key of the PEM encoded certificates that the API
	// server's certificate is verified with. Without it, those of the system count.
	SecretKeyCABundle = "caBundle"
)

// Annotations on a ManagedCluster, written by its agent in either mode.
const (
	// AnnotationHubURL has the URL of the hub that what agents apply to the cluster
	// is marked with: that of the first agent that worked for the cluster.
	AnnotationHubURL = "fleet.capstan.io/hub-url"
	// AnnotationAgentID has the ID of the agent that works for the cluster: the UID
	// of the Klusterlet, or of the ClusterConnection if the cluster is Push.
	AnnotationAgentID = "fleet.capstan.io/agent-id"
)

// AnnotationClusterID on a ClusterConnection is who the hub holds the cluster
// for: the UID of its namespace kube-system, as the agent told it when the hub
// accepted the cluster. Agents cannot change it, so a cluster that claims to be
// another one later gains nothing by that. A Push cluster does not need it: the
// push agent itself finds out its status.id.
const AnnotationClusterID = "fleet.capstan.io/cluster-id"

// The push agent.
const (
	// PushAgentServiceAccount is the name of its ServiceAccount in the namespace
	// of the hub's components.
	PushAgentServiceAccount = "push-agent-sa"
	// PushCredentialsRole is the ClusterRole that lets it use the Secret
	// DefaultSecretName; it is bound in the namespace of each Push cluster.
	PushCredentialsRole = "open-cluster-management:push-agent:credentials"
)

// What a Push cluster has in the member for the push agent of a hub.
const (
	// LabelPushCluster is on all of it; the value is the name of the cluster on
	// the hub. On the namespace, which clusters of several hubs may share, it is
	// empty.
	LabelPushCluster = "fleet.capstan.io/push-cluster"
	// LabelPushHub tells of which hub that is: the UID of the hub's namespace
	// kube-system.
	LabelPushHub = "fleet.capstan.io/push-hub"
	// DefaultMemberNamespace is where the ServiceAccount is, unless another
	// namespace was asked for.
	DefaultMemberNamespace = "capstan-cluster"
	// MemberAccountPrefix begins the name of the ServiceAccount; the name of the
	// cluster follows.
	MemberAccountPrefix = "capstan-"
)
