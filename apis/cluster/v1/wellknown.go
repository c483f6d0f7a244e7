// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Labels.
const (
	// LabelClusterName is on everything on the hub that belongs to one member:
	// its namespace, roles and certificate signing requests. The value is the
	// name of the ManagedCluster.
	LabelClusterName = "open-cluster-management.io/cluster-name"
	// LabelClusterSet on a ManagedCluster names the one ManagedClusterSet of
	// selector type ExclusiveClusterSetLabel that it belongs to.
	LabelClusterSet = "cluster.open-cluster-management.io/clusterset"
	// LabelManagedNamespacePrefix, followed by the hub's hash, is on a member's
	// namespaces that a ManagedClusterSet requests; the value is "true", and
	// becomes "false" once no set requests the namespace.
	LabelManagedNamespacePrefix = "clusterset.open-cluster-management.io/"
	// LabelAddOnFeaturePrefix, followed by an add-on's name, is on a
	// ManagedCluster that has this add-on; the value is the add-on's health.
	LabelAddOnFeaturePrefix = "feature.open-cluster-management.io/addon-"
	// LabelSpokeOnly on a ClusterClaim keeps it from being reported to the hub.
	LabelSpokeOnly = "open-cluster-management.io/spoke-only"
)

// Annotations.
const (
	// AnnotationAutomaticallyAcceptedOn is the time at which the hub accepted a
	// ManagedCluster automatically. It does so only once, so that an administrator
	// can deny the member later.
	AnnotationAutomaticallyAcceptedOn = "open-cluster-management.io/automatically-accepted-on"
	// AnnotationSkipClockSyncCheck on a ManagedCluster turns off the comparison of
	// the clocks of hub and member. The value is "true".
	AnnotationSkipClockSyncCheck = "registration.open-cluster-management.io/skip-clock-sync-check"
	// AnnotationAgentPrefix is the prefix of the annotations that a Klusterlet may
	// add to its ManagedCluster.
	AnnotationAgentPrefix = "agent.open-cluster-management.io"
	// AnnotationImageRegistries on a ManagedCluster has, in JSON, the registries
	// that override those of add-on images.
	AnnotationImageRegistries = "open-cluster-management.io/image-registries"
	// AnnotationCleanupPriority is the order in which objects in a member's
	// namespace are deleted after the ManagedCluster: 0 (the default) first, 100
	// last.
	AnnotationCleanupPriority = "open-cluster-management.io/cleanup-priority"
	// AnnotationCSRUser on a certificate signing request names the user on whose
	// behalf it was created, if it was received over gRPC.
	AnnotationCSRUser = "open-cluster-management.io/csr-user"
	// AnnotationAutoUpdate set to "false" on a built-in ManagedClusterSet keeps
	// the hub from resetting changes of its spec.
	AnnotationAutoUpdate = "cluster.open-cluster-management.io/autoupdate"
)

// Finalizers.
const (
	// FinalizerAPIResourceCleanup keeps a ManagedCluster until the hub has revoked
	// its permissions.
	FinalizerAPIResourceCleanup = "cluster.open-cluster-management.io/api-resource-cleanup"
	// FinalizerResourceCleanup keeps a ManagedCluster until the objects in its
	// namespace are gone (feature gate ResourceCleanup).
	FinalizerResourceCleanup = "cluster.open-cluster-management.io/resource-cleanup"
	// FinalizerManifestWorkCleanup keeps the agent's permissions on its
	// ManifestWorks until none is left. It is the same key as on the
	// ManifestWorks.
	FinalizerManifestWorkCleanup = "cluster.open-cluster-management.io/manifest-work-cleanup"
)

// Keys of the taints that the hub sets.
const (
	// TaintUnavailable is set while the member reports that it is unhealthy.
	TaintUnavailable = "cluster.open-cluster-management.io/unavailable"
	// TaintUnreachable is set while the heartbeat of the member's agent is
	// missing.
	TaintUnreachable = "cluster.open-cluster-management.io/unreachable"
)

// Names.
const (
	// LeaseName is the Lease in a member's namespace on the hub that carries the
	// heartbeats of its agent.
	LeaseName = "managed-cluster-lease"
	// DefaultClusterSet is the set of all members that are in no other set.
	DefaultClusterSet = "default"
	// GlobalClusterSet is the set of all members.
	GlobalClusterSet = "global"
)

// Virtual resources in the hub's permission rules. The group is RegisterGroup
// for accept and clientcertificates, GroupName for join and bind.
const (
	// RegisterGroup is the API group of the permissions about registering.
	RegisterGroup = "register.open-cluster-management.io"
	// AcceptResource with verb update is the permission to set hubAcceptsClient.
	AcceptResource = "managedclusters/accept"
	// ClientCertificatesResource with verb renew is the permission to renew one's
	// own client certificate.
	ClientCertificatesResource = "managedclusters/clientcertificates"
	// JoinResource with verb create is the permission to add a member to a set or
	// remove it.
	JoinResource = "managedclustersets/join"
	// BindResource with verb create is the permission to bind a set to a namespace.
	BindResource = "managedclustersets/bind"
)

// Identities of agents on the hub.
const (
	// UserPrefix is the prefix of the users and groups of agents.
	UserPrefix = "system:open-cluster-management:"
	// GroupManagedClusters is the group that all agents are in.
	GroupManagedClusters = UserPrefix + "managed-clusters"
	// GroupAWSPrefix is the prefix of the group of a member that authenticates
	// with AWS IAM roles.
	GroupAWSPrefix = "open-cluster-management:"
	// GroupBootstrappers is the group of bootstrap tokens that may register.
	GroupBootstrappers = "system:bootstrappers:managedcluster"
	// GroupBootstrapAutoAccept is the group of bootstrap tokens whose clusters the
	// hub accepts automatically, if the token is bound to their names.
	GroupBootstrapAutoAccept = GroupBootstrappers + ":auto-accept"
)

// Suffixes, after GroupBootstrappers and a colon, of the groups that bind a
// bootstrap token to cluster names.
const (
	// BootstrapName, followed by its name, is for one cluster.
	BootstrapName = "name:"
	// BootstrapPrefix, followed by a prefix and ":x", is for all clusters whose
	// names begin with the prefix.
	BootstrapPrefix = "prefix:"
)

// AgentUser returns the hub user of one agent of a member.
func AgentUser(cluster, agent string) string {
	return UserPrefix + cluster + ":" + agent
}

// AgentGroup returns the hub group of all agents of a member.
func AgentGroup(cluster string) string {
	return UserPrefix + cluster
}

// CSRReasonAutoApproved is the reason in the approval of a certificate signing
// request that the hub approved automatically.
const CSRReasonAutoApproved = "AutoApprovedByHubCSRApprovingController"

// CSRsPerAgentMax is the number of pending certificate signing requests that an
// agent has made at which it creates no more. Agents of Open Cluster Management
// count those of all who asked in the name of their member.
const CSRsPerAgentMax = 10
