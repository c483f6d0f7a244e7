// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of ManagedCluster.
const (
	// ManagedClusterConditionHubAccepted reports whether the hub accepts the
	// member. Written by the hub.
	ManagedClusterConditionHubAccepted = "HubAcceptedManagedCluster"
	// ManagedClusterConditionHubDenied is known to some clients but set by none:
	// a refused member has HubAcceptedManagedCluster=False.
	ManagedClusterConditionHubDenied = "HubDeniedManagedCluster"
	// ManagedClusterConditionJoined reports that the agent uses the client
	// certificate from its registration. Written by the agent.
	ManagedClusterConditionJoined = "ManagedClusterJoined"
	// ManagedClusterConditionAvailable reports whether the member's API server is
	// healthy (written by the agent), or is Unknown if the agent's heartbeat has
	// stopped (written by the hub).
	ManagedClusterConditionAvailable = "ManagedClusterConditionAvailable"
	// ManagedClusterConditionClockSynced reports whether the clocks of hub and
	// member agree. Written by the hub.
	ManagedClusterConditionClockSynced = "ManagedClusterConditionClockSynced"
	// ManagedClusterConditionDeleting reports what the deletion of the member is
	// waiting for. Written by the hub.
	ManagedClusterConditionDeleting = "Deleting"
	// ManagedClusterConditionDuplicateIdentity warns that the same cluster has
	// also joined under another name. Absent otherwise.
	ManagedClusterConditionDuplicateIdentity = "DuplicateIdentity"
	// ManagedClusterConditionClusterCertificateRotated reports the result of the
	// latest renewal of the agent's client certificate. Written by the agent.
	ManagedClusterConditionClusterCertificateRotated = "ClusterCertificateRotated"
	// ManagedClusterConditionWorksMissing reports whether the agent keeps objects on
	// the member whose ManifestWorks are missing since the hub was restored from a
	// backup. Absent if there never were any. Written by the agent.
	ManagedClusterConditionWorksMissing = "WorksMissing"
	// ManagedClusterConditionLabelsWithheld reports whether the Klusterlet names labels
	// that the hub does not let the agent change; see annotation
	// fleet.capstan.io/agent-labels. Absent if it never did. Written by the agent.
	ManagedClusterConditionLabelsWithheld = "LabelsWithheld"
	// ManagedClusterConditionImportSucceeded reports whether the hub's importer
	// installed the agent. Written by the importer.
	ManagedClusterConditionImportSucceeded = "ManagedClusterImportSucceeded"
)

// Reasons of HubAcceptedManagedCluster.
const (
	// ManagedClusterReasonHubClusterAdminAccepted (True): the hub accepts the
	// member, and its namespace, roles and lease exist.
	ManagedClusterReasonHubClusterAdminAccepted = "HubClusterAdminAccepted"
	// ManagedClusterReasonHubClusterAdminDenied (False): hubAcceptsClient was set
	// back to false.
	ManagedClusterReasonHubClusterAdminDenied = "HubClusterAdminDenied"
	// ManagedClusterReasonAcceptError (False): namespace, roles or lease could not
	// be written; the message contains the error.
	ManagedClusterReasonAcceptError = "Error"
)

// Reasons of ManagedClusterJoined.
const (
	// ManagedClusterReasonJoined (True): the agent has registered.
	ManagedClusterReasonJoined = "ManagedClusterJoined"
)

// Reasons of ManagedClusterConditionAvailable.
const (
	// ManagedClusterReasonAvailable (True): the member's API server is healthy.
	ManagedClusterReasonAvailable = "ManagedClusterAvailable"
	// ManagedClusterReasonKubeAPIServerUnavailable (False): the member's API
	// server is unhealthy, or the agent cannot reach it.
	ManagedClusterReasonKubeAPIServerUnavailable = "ManagedClusterKubeAPIServerUnavailable"
	// ManagedClusterReasonLeaseUpdateStopped (Unknown): no heartbeat for five
	// times leaseDurationSeconds.
	ManagedClusterReasonLeaseUpdateStopped = "ManagedClusterLeaseUpdateStopped"
)

// Reasons of ManagedClusterConditionClockSynced.
const (
	// ManagedClusterReasonClockSynced (True): the clocks agree closely enough to
	// evaluate heartbeats.
	ManagedClusterReasonClockSynced = "ManagedClusterClockSynced"
	// ManagedClusterReasonClockOutOfSync (False): the clocks differ by five times
	// leaseDurationSeconds or more.
	ManagedClusterReasonClockOutOfSync = "ManagedClusterClockOutOfSync"
)

// Reasons of Deleting.
const (
	// ManagedClusterReasonDeletingResourceRemaining (False): objects in the
	// member's namespace have to be deleted first; the message counts them.
	ManagedClusterReasonDeletingResourceRemaining = "ResourceRemaining"
	// ManagedClusterReasonDeletingNoResource (True): nothing is left to wait for.
	ManagedClusterReasonDeletingNoResource = "NoResource"
	// ManagedClusterReasonDeletingError (False): the objects could not be listed
	// or deleted; the message contains the error.
	ManagedClusterReasonDeletingError = "DeletingError"
)

// Reasons of ClusterCertificateRotated.
const (
	// ManagedClusterReasonClientCertificateUpdated (True): the agent uses a new
	// client certificate; the message has its validity period.
	ManagedClusterReasonClientCertificateUpdated = "ClientCertificateUpdated"
	// ManagedClusterReasonClientCertificateUpdateFailed (False): the client
	// certificate could not be renewed; the message contains the error.
	ManagedClusterReasonClientCertificateUpdateFailed = "ClientCertificateUpdateFailed"
)

// Reasons of WorksMissing.
const (
	// ManagedClusterReasonHubRestored (True): the hub was restored from a backup
	// that lacks these ManifestWorks; the message names some of them.
	ManagedClusterReasonHubRestored = "HubRestored"
	// ManagedClusterReasonRestoredInvalid (True): the annotation
	// fleet.capstan.io/restored cannot be read, so everything is kept.
	ManagedClusterReasonRestoredInvalid = "RestoredInvalid"
	// ManagedClusterReasonNothingKept (False): none are missing any more, or
	// somebody confirmed that their objects may be deleted.
	ManagedClusterReasonNothingKept = "NothingKept"
)

// Reasons of LabelsWithheld.
const (
	// ManagedClusterReasonNotAllowedByHub (True): the message names the labels.
	ManagedClusterReasonNotAllowedByHub = "NotAllowedByHub"
	// ManagedClusterReasonLabelsInSync (False): the labels match the Klusterlet.
	ManagedClusterReasonLabelsInSync = "LabelsInSync"
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
	// could not be rendered.
	ManagedClusterReasonImportConfigRendererFailed = "ConfigRendererFailed"
)

// Condition type and reasons of the entries of status.managedNamespaces.
const (
	// ManagedNamespaceConditionAvailable reports whether the member has the
	// namespace. Written by the agent.
	ManagedNamespaceConditionAvailable = "NamespaceAvailable"

	// ManagedNamespaceReasonApplied (True): the namespace exists.
	ManagedNamespaceReasonApplied = "NamespaceApplied"
	// ManagedNamespaceReasonApplyFailed (False): the namespace could not be
	// created or labelled; the message contains the error.
	ManagedNamespaceReasonApplyFailed = "NamespaceApplyFailed"
)
