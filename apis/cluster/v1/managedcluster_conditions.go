// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of ManagedCluster.
const (
	// ManagedClusterConditionHubAccepted tells whether the hub lets the member
	// in. Written by the hub.
	ManagedClusterConditionHubAccepted = "HubAcceptedManagedCluster"
	// ManagedClusterConditionHubDenied is known to some clients but set by none:
	// a refused member has HubAcceptedManagedCluster=False.
	ManagedClusterConditionHubDenied = "HubDeniedManagedCluster"
	// ManagedClusterConditionJoined tells that the agent uses the client
	// certificate that it got by registering. Written by the agent.
	ManagedClusterConditionJoined = "ManagedClusterJoined"
	// ManagedClusterConditionAvailable tells whether the member's API server is
	// well (written by the agent), or Unknown if the agent is not heard of
	// (written by the hub).
	ManagedClusterConditionAvailable = "ManagedClusterConditionAvailable"
	// ManagedClusterConditionClockSynced tells whether the clocks of hub and
	// member agree. Written by the hub.
	ManagedClusterConditionClockSynced = "ManagedClusterConditionClockSynced"
	// ManagedClusterConditionDeleting tells what the deletion of the member waits
	// for. Written by the hub.
	ManagedClusterConditionDeleting = "Deleting"
	// ManagedClusterConditionDuplicateIdentity warns that the member is in the fleet
	// under another name as well. It is there while that is so.
	ManagedClusterConditionDuplicateIdentity = "DuplicateIdentity"
	// ManagedClusterConditionClusterCertificateRotated tells how the latest
	// renewal of the agent's client certificate ended. Written by the agent.
	ManagedClusterConditionClusterCertificateRotated = "ClusterCertificateRotated"
	// ManagedClusterConditionImportSucceeded tells whether the hub could install
	// the agent by itself. Written by the hub's importer.
	ManagedClusterConditionImportSucceeded = "ManagedClusterImportSucceeded"
)

// Reasons of HubAcceptedManagedCluster.
const (
	// ManagedClusterReasonHubClusterAdminAccepted (True): the hub accepts the
	// member, and its namespace, roles and lease are there.
	ManagedClusterReasonHubClusterAdminAccepted = "HubClusterAdminAccepted"
	// ManagedClusterReasonHubClusterAdminDenied (False): hubAcceptsClient was set
	// back to false.
	ManagedClusterReasonHubClusterAdminDenied = "HubClusterAdminDenied"
	// ManagedClusterReasonAcceptError (False): namespace, roles or lease could not
	// be written; the message has the error.
	ManagedClusterReasonAcceptError = "Error"
)

// Reasons of ManagedClusterJoined.
const (
	// ManagedClusterReasonJoined (True): the agent has registered.
	ManagedClusterReasonJoined = "ManagedClusterJoined"
)

// Reasons of ManagedClusterConditionAvailable.
const (
	// ManagedClusterReasonAvailable (True): the member's API server is well.
	ManagedClusterReasonAvailable = "ManagedClusterAvailable"
	// ManagedClusterReasonKubeAPIServerUnavailable (False): the member's API server
	// says that it is not well, or the agent does not reach it.
	ManagedClusterReasonKubeAPIServerUnavailable = "ManagedClusterKubeAPIServerUnavailable"
	// ManagedClusterReasonLeaseUpdateStopped (Unknown): no heartbeat for five
	// times leaseDurationSeconds.
	ManagedClusterReasonLeaseUpdateStopped = "ManagedClusterLeaseUpdateStopped"
)

// Reasons of ManagedClusterConditionClockSynced.
const (
	// ManagedClusterReasonClockSynced (True): the clocks agree well enough for
	// heartbeats to be judged.
	ManagedClusterReasonClockSynced = "ManagedClusterClockSynced"
	// ManagedClusterReasonClockOutOfSync (False): the clocks differ by five times
	// leaseDurationSeconds or more.
	ManagedClusterReasonClockOutOfSync = "ManagedClusterClockOutOfSync"
)

// Reasons of Deleting.
const (
	// ManagedClusterReasonDeletingResourceRemaining (False): objects in the
	// member's namespace have to go first; the message counts them.
	ManagedClusterReasonDeletingResourceRemaining = "ResourceRemaining"
	// ManagedClusterReasonDeletingNoResource (True): nothing is left to wait for.
	ManagedClusterReasonDeletingNoResource = "NoResource"
	// ManagedClusterReasonDeletingError (False): the objects could not be listed
	// or deleted; the message has the error.
	ManagedClusterReasonDeletingError = "DeletingError"
)

// Reasons of ClusterCertificateRotated.
const (
	// ManagedClusterReasonClientCertificateUpdated (True): the agent uses a new
	// client certificate; the message tells its validity.
	ManagedClusterReasonClientCertificateUpdated = "ClientCertificateUpdated"
	// ManagedClusterReasonClientCertificateUpdateFailed (False): the client
	// certificate could not be renewed; the message has the error.
	ManagedClusterReasonClientCertificateUpdateFailed = "ClientCertificateUpdateFailed"
)

// Reasons of ManagedClusterImportSucceeded.
const (
	// ManagedClusterReasonImportSucceeded (True): the agent was installed.
	ManagedClusterReasonImportSucceeded = "ImportSucceed"
	// ManagedClusterReasonImportFailed (False): installing the agent failed.
	ManagedClusterReasonImportFailed = "ImportFailed"
	// ManagedClusterReasonImportKubeConfigGetFailed (False): the kubeconfig of the
	// cluster could not be read.
	ManagedClusterReasonImportKubeConfigGetFailed = "KubeConfigGetFailed"
	// ManagedClusterReasonImportKubeConfigNotFound (False): there is no kubeconfig
	// of the cluster yet.
	ManagedClusterReasonImportKubeConfigNotFound = "KubeConfigNotFound"
	// ManagedClusterReasonImportConfigRendererFailed (False): the agent's objects
	// could not be made.
	ManagedClusterReasonImportConfigRendererFailed = "ConfigRendererFailed"
)

// Condition type and reasons of the entries of status.managedNamespaces.
const (
	// ManagedNamespaceConditionAvailable tells whether the member has the
	// namespace. Written by the agent.
	ManagedNamespaceConditionAvailable = "NamespaceAvailable"

	// ManagedNamespaceReasonApplied (True): the namespace is there.
	ManagedNamespaceReasonApplied = "NamespaceApplied"
	// ManagedNamespaceReasonApplyFailed (False): the namespace could not be made
	// or labelled; the message has the error.
	ManagedNamespaceReasonApplyFailed = "NamespaceApplyFailed"
)
