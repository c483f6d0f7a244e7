// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

const (
	// Finalizer is on every Cluster until the hub has removed what belongs to it.
	Finalizer = "karmada.io/cluster-controller"
	// TaintUnschedulable is the taint of a cordoned cluster.
	TaintUnschedulable = "cluster.karmada.io/unschedulable"
	// NameMaxLength is the length of the longest name of a Cluster: the namespace
	// karmada-es-<name> has to be a DNS label.
	NameMaxLength = 48
	// SecretsNamespace is where Karmada's clients keep the Secrets that Clusters refer to.
	SecretsNamespace = "karmada-cluster"
)

// The keys of the Secrets that a Cluster refers to.
const (
	// SecretKeyToken is the key of the bearer token.
	SecretKeyToken = "token"
	// SecretKeyCABundle is the key of the PEM-encoded CA certificates.
	SecretKeyCABundle = "caBundle"
)

// Condition types of Cluster.
const (
	// ClusterConditionReady reports whether the cluster is healthy and connected.
	ClusterConditionReady = "Ready"
	// ClusterConditionCompleteAPIEnablements reports whether status.apiEnablements
	// is complete.
	ClusterConditionCompleteAPIEnablements = "CompleteAPIEnablements"
)

// Reasons of Ready.
const (
	// ClusterReasonReady (True): the API server of the cluster is healthy.
	ClusterReasonReady = "ClusterReady"
	// ClusterReasonNotReady (False): the API server of the cluster responds, but
	// is not healthy.
	ClusterReasonNotReady = "ClusterNotReady"
	// ClusterReasonNotReachable (False): the API server of the cluster does not
	// respond.
	ClusterReasonNotReachable = "ClusterNotReachable"
	// ClusterReasonStatusUnknown (Unknown): the hub does not hear from the agent of
	// the cluster, or does not accept the cluster.
	ClusterReasonStatusUnknown = "ClusterStatusUnknown"
)

// Reasons of CompleteAPIEnablements.
const (
	// ClusterReasonComplete (True): all groups and versions are listed.
	ClusterReasonComplete = "Complete"
	// ClusterReasonPartial (False): some could not be discovered.
	ClusterReasonPartial = "Partial"
	// ClusterReasonEmpty (False): nothing could be discovered.
	ClusterReasonEmpty = "Empty"
)
