// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// The Secret with the credential for a Push cluster, in the namespace of the
// cluster on the hub.
const (
	// DefaultSecretName is the default of spec.secretRef. The push agent may read
	// the Secret of this name of each Push cluster; access to another name has to
	// be granted.
	DefaultSecretName = "cluster-connection"
	// ImpersonatorSecretName is the name of the copy of the Secret that
	// spec.impersonatorSecretRef of a Cluster names.
	ImpersonatorSecretName = "cluster-impersonator"
	// SecretKeyToken is the key of the bearer token.
	SecretKeyToken = "token"
	// SecretKeyCABundle is the key of the PEM-encoded CA certificates that verify
	// the API server's certificate. Without it, the system's are used.
	SecretKeyCABundle = "caBundle"
)

// Annotations on a ManagedCluster, written by its agent in either mode.
const (
	// AnnotationHubURL is the hub URL that identifies the hub in
	// AppliedManifestWorks on the cluster: that of the first agent that served the
	// cluster.
	AnnotationHubURL = "fleet.capstan.io/hub-url"
	// AnnotationAgentID is the ID of the agent that serves the cluster: the UID of
	// the Klusterlet, or of the ClusterConnection if the cluster is Push.
	AnnotationAgentID = "fleet.capstan.io/agent-id"
)

// Annotations on a ManagedCluster, written by the hub for its Cluster.
const (
	// AnnotationCompletedIntent is the id of the latest intent of the Cluster that
	// was completed. It is written together with what the intent changes.
	AnnotationCompletedIntent = "fleet.capstan.io/completed-intent"
	// AnnotationForceDetach with the value "true" on a ManagedCluster that is being
	// deleted ends the deletion without its agent, even if that responds: the
	// finalizers of its works are removed, and what they delivered and the agent does
	// not clean up any more stays on the member.
	AnnotationForceDetach = "fleet.capstan.io/force-detach"
)

// Annotations on a ManagedCluster by which the hub limits what its agent can make of it.
// The hub writes them as its ClusterConnection says, and agents cannot change them.
const (
	// AnnotationAgentLabels has the keys of the labels that the agent may change,
	// separated by commas: spec.agentLabels. On a ClusterManager it has those of
	// clusters whose ClusterConnection names none. Default: no label.
	AnnotationAgentLabels = "fleet.capstan.io/agent-labels"
	// AnnotationPinnedClaims has the claims that count whatever the agent reports, as a
	// JSON object of names and values: spec.pinnedClaims. It is not there if there are
	// none.
	AnnotationPinnedClaims = "fleet.capstan.io/pinned-claims"
)

// AnnotationRestored on a ManagedCluster says that the hub was restored from a
// backup, and which resourceVersions it has forgotten: SNAPSHOT-RESTORED, two
// revisions of etcd. As long as it is there, the agent keeps what was delivered by
// ManifestWorks of such versions that the hub does not have. Whoever removes it
// confirms that these objects may be deleted. On the ManagedClusterSet global it
// is for clusters that are accepted later: the hub copies it to them.
const AnnotationRestored = "fleet.capstan.io/restored"

// AnnotationFormerAgents contains the IDs of the agents that the agent of
// AnnotationAgentID replaces, separated by commas, the latest last. Both are on
// the AppliedManifestWork that marks a handover on a member.
const AnnotationFormerAgents = "fleet.capstan.io/former-agents"

// AnnotationClusterID on a ClusterConnection is the cluster's identity for the
// hub: the UID of its kube-system namespace, as the agent reported it when the
// hub accepted the cluster. Agents cannot change it, so a cluster that later
// claims to be another one gains nothing by it. A Push cluster does not need
// it: the push agent itself reads its status.id.
const AnnotationClusterID = "fleet.capstan.io/cluster-id"

// AnnotationCountPods on a ClusterConnection asks the agent to count what pods
// request, as replicas are placed by what clusters have left. The hub sets it to
// AskedByPropagation while it sends objects by policies.
const AnnotationCountPods = "fleet.capstan.io/count-pods"

// AskedByPropagation is the value of AnnotationCountPods that the hub sets, and
// removes again.
const AskedByPropagation = "propagation"

// The push agent.
const (
	// PushAgentServiceAccount is the name of its ServiceAccount in the namespace
	// of the hub's components.
	PushAgentServiceAccount = "push-agent-sa"
	// APIServerServiceAccount is the ServiceAccount of the hub's aggregated API server, in
	// the namespace of the hub.
	APIServerServiceAccount = "apiserver-sa"
	// PushCredentialsRole is the ClusterRole that lets it use the Secret
	// DefaultSecretName; it is bound in the namespace of each Push cluster.
	PushCredentialsRole = "open-cluster-management:push-agent:credentials"
)

// The field owners by which the agent of a cluster applies its share of the status of its
// ManagedCluster, and its condition LabelsWithheld. The hub lets agents apply by no other.
const (
	FieldOwnerClusterStatus = "registration-agent"
	FieldOwnerClusterLabels = "registration-agent-labels"
)

// The propagation controller.
const (
	// PropagationServiceAccount is the name of its ServiceAccount in the namespace
	// of the hub's components.
	PropagationServiceAccount = "propagation-controller-sa"
	// PropagationTemplatesRole is the ClusterRole by which it may read and write what
	// policies select. It keeps its rules itself.
	PropagationTemplatesRole = "open-cluster-management:cluster-manager-propagation:templates"
)

// LabelTemplates with the value "true" on a namespace of a hub that is an ordinary
// cluster, or on an object without one, says that the kinds of Kubernetes in it are
// sent to clusters, as policies say.
const LabelTemplates = "fleet.capstan.io/templates"

// Objects on the member for the push agent of a hub.
const (
	// LabelPushCluster is on all of them; the value is the name of the cluster on
	// the hub. On the namespace, which several hubs may share, it is empty.
	LabelPushCluster = "fleet.capstan.io/push-cluster"
	// LabelPushHub identifies the hub: the UID of its kube-system namespace.
	LabelPushHub = "fleet.capstan.io/push-hub"
	// DefaultMemberNamespace is the default namespace of the ServiceAccount.
	DefaultMemberNamespace = "capstan-cluster"
	// MemberAccountPrefix is the prefix of the ServiceAccount's name; the name of
	// the cluster follows.
	MemberAccountPrefix = "capstan-"
)

// AnnotationPaused with the value "true" on an object whose changes are rolled
// out to clusters, such as a ManifestWorkReplicaSet, stops the rollout: nothing
// is written to clusters until it is gone.
const AnnotationPaused = "fleet.capstan.io/paused"

// AnnotationPartialPlacement with the value "true" on a PropagationPolicy or a
// ClusterPropagationPolicy says that replicas which are divided by the room of
// clusters are placed as far as there is room, and the rest when there is more.
// Without it, all are placed or none. The hub copies it to the bindings.
const AnnotationPartialPlacement = "fleet.capstan.io/partial-placement"

// Annotations of a PropagationPolicy or ClusterPropagationPolicy about replicas
// that are divided among clusters.
const (
	// AnnotationRebalance with the value Continuous has replicas move by themselves to
	// clusters that come and to capacity that becomes free.
	AnnotationRebalance = "fleet.capstan.io/rebalance"
	// RebalanceContinuous is the value of AnnotationRebalance.
	RebalanceContinuous = "Continuous"
	// AnnotationRebalanceBudget is how many replicas of an object move in a window at
	// most: a number, or a share of them such as 10%, which is the default. One may
	// always move.
	AnnotationRebalanceBudget = "fleet.capstan.io/rebalance-budget"
	// AnnotationRebalanceWindow is how long another division has to be better before
	// replicas move to it, and how long they stay then: a duration of 1m to 24h.
	// Default: 10m.
	AnnotationRebalanceWindow = "fleet.capstan.io/rebalance-window"
)

// AnnotationRebalanced is on a binding whose replicas have moved by themselves, and
// has when they last did and how, as JSON.
const AnnotationRebalanced = "fleet.capstan.io/rebalanced"

// AnnotationWorkBytesMax on a Namespace is how many bytes the works of its bindings and replica
// sets take up on the hub at most, as a quantity such as 4Gi. Default: three quarters of what
// other namespaces leave of the 1Gi that all have together which do not have it. A quarter of it,
// or of 1Gi if that is more, may be written at once, and after that one of 1024 parts in a second.
const AnnotationWorkBytesMax = "fleet.capstan.io/work-bytes-max"

// AnnotationClusterPolicyWorkBytesMax on a Namespace is the same for the works of objects of it that
// ClusterPropagationPolicies send. Default: three quarters of what all others leave of the 1Gi, and
// of a sixteenth more that is reserved for such works.
const AnnotationClusterPolicyWorkBytesMax = "fleet.capstan.io/cluster-policy-work-bytes-max"

// AnnotationSharedWorkBytesMax on a ClusterManager is how many bytes the works of all namespaces
// without a limit of their own take up on the hub together, as a quantity such as 4Gi. Default: 1Gi.
const AnnotationSharedWorkBytesMax = "fleet.capstan.io/shared-work-bytes-max"

// What a rollout leaves on the works that it governs. They go with it.
const (
	// AnnotationRevision is a hash of what a work was made of, whatever the number of
	// replicas.
	AnnotationRevision = "fleet.capstan.io/revision"
	// AnnotationRevisionSince is when the work was made of it first, in RFC 3339.
	AnnotationRevisionSince = "fleet.capstan.io/revision-since"
)

// AnnotationMonitoring on a ClusterManager or Klusterlet asks its operator for objects
// by which a monitoring system finds the metrics of what it installs.
const AnnotationMonitoring = "fleet.capstan.io/monitoring"

// MonitoringPodMonitor is the value of AnnotationMonitoring that asks for PodMonitors
// of the Prometheus operator. There is no other.
const MonitoringPodMonitor = "PodMonitor"

// MonitoringTokenSecret is the Secret, beside each PodMonitor, whose key token has the
// bearer token that Prometheus reads metrics with. Whoever runs Prometheus makes it.
const MonitoringTokenSecret = "capstan-metrics-token"

// AnnotationTraceparent is on a ManifestWork while tracing is on, and has the trace of
// its delivery: a W3C traceparent. It stays on the hub.
const AnnotationTraceparent = "fleet.capstan.io/traceparent"

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
