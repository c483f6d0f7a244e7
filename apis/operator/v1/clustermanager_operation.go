// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Annotations by which a user directs the operators.
const (
	// AnnotationPaused set to "true" on a ClusterManager or Klusterlet makes the
	// operator leave everything as it is. The condition Paused shows it.
	AnnotationPaused = "operator.open-cluster-management.io/paused"
	// AnnotationDeletionDeadline on a ClusterManager is how long, counted from its
	// deletion, the operator waits for clusters that are not Available to give up
	// their works: a duration like "10m". Default: 60s.
	AnnotationDeletionDeadline = "operator.open-cluster-management.io/deletion-deadline"
)

// Further condition types of ClusterManager, which are there only while they
// have something to say.
const (
	// ClusterManagerConditionPaused (True) tells that the operator leaves the hub alone.
	ClusterManagerConditionPaused = "Paused"
	// ClusterManagerConditionDeleting (True) tells what the removal of the hub waits for.
	ClusterManagerConditionDeleting = "Deleting"
)

const (
	// ClusterManagerReasonPausedByAnnotation (Paused=True): the annotation says so.
	ClusterManagerReasonPausedByAnnotation = "PausedByAnnotation"
)

// Reasons of Deleting, all True.
const (
	// ClusterManagerReasonResourcesRemaining: objects of users are left, whose
	// kinds, number and names are in the message.
	ClusterManagerReasonResourcesRemaining = "ResourcesRemaining"
	// ClusterManagerReasonRemovingHub: what the operator installed is being removed.
	ClusterManagerReasonRemovingHub = "RemovingHub"
	// ClusterManagerReasonWaitingForHub: what is installed on the hub cannot be
	// removed, as the hub cannot be worked on; mode Hosted only.
	ClusterManagerReasonWaitingForHub = "WaitingForHub"
	// ClusterManagerReasonCleanupFailed: something could not be removed.
	ClusterManagerReasonCleanupFailed = "CleanupFailed"
)

// Further reasons of Applied, all False.
const (
	// ClusterManagerReasonInstalling: the first installation waits for what the
	// message says.
	ClusterManagerReasonInstalling = "Installing"
	// ClusterManagerReasonConfigurationNotSupported: the spec asks for a driver that
	// this version does not have.
	ClusterManagerReasonConfigurationNotSupported = "ConfigurationNotSupported"
	// ClusterManagerReasonAnotherClusterManager: the cluster has a hub of an older
	// ClusterManager already.
	ClusterManagerReasonAnotherClusterManager = "AnotherClusterManager"
	// ClusterManagerReasonCertificateFailed: a serving certificate could not be made.
	ClusterManagerReasonCertificateFailed = "CertificateFailed"
)

// Reasons of Applied, all False, if the hub cannot be worked on from the cluster
// of the operator; mode Hosted only. What runs goes on.
const (
	// ClusterManagerReasonExternalHubKubeConfigMissing: there is no secret
	// external-hub-kubeconfig, or it has no kubeconfig.
	ClusterManagerReasonExternalHubKubeConfigMissing = "ExternalHubKubeConfigMissing"
	// ClusterManagerReasonExternalHubKubeConfigMalformed: the kubeconfig cannot be
	// used.
	ClusterManagerReasonExternalHubKubeConfigMalformed = "ExternalHubKubeConfigMalformed"
	// ClusterManagerReasonHubUnreachable: the hub does not answer.
	ClusterManagerReasonHubUnreachable = "HubUnreachable"
	// ClusterManagerReasonHubUntrusted: the certificate of the hub is not trusted.
	ClusterManagerReasonHubUntrusted = "HubUntrusted"
	// ClusterManagerReasonHubUnauthorized: the hub does not know the credential.
	ClusterManagerReasonHubUnauthorized = "HubUnauthorized"
	// ClusterManagerReasonHubForbidden: the hub does not allow what is needed.
	ClusterManagerReasonHubForbidden = "HubForbidden"
)

// ClusterManagerReasonPlacementNotInstalled (HubPlacementDegraded=False): this
// version has no placement controller, so none can be degraded.
const ClusterManagerReasonPlacementNotInstalled = "PlacementNotInstalled"
