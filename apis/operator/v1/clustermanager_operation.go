// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"fmt"
	"strconv"
)

// Annotations that users set to direct the operators.
const (
	// AnnotationPaused set to "true" on a ClusterManager or Klusterlet makes the
	// operator stop reconciling it. The condition Paused reports this.
	AnnotationPaused = "operator.open-cluster-management.io/paused"
	// AnnotationDeletionDeadline on a ClusterManager is how long after its
	// deletion the operator waits for clusters that are not Available to remove
	// their works: a duration such as "10m". Default: 60s.
	AnnotationDeletionDeadline = "operator.open-cluster-management.io/deletion-deadline"
	// AnnotationDeletionGracePeriod on a ClusterManager is how long after its
	// deletion a hub with joined clusters waits before it deletes their works: a
	// duration such as "10m". Default: 30s.
	AnnotationDeletionGracePeriod = "fleet.capstan.io/deletion-grace-period"
	// AnnotationKeepWorks set to "true" on a ClusterManager makes its deletion leave
	// on the members what works delivered.
	AnnotationKeepWorks = "fleet.capstan.io/keep-works"
	// AnnotationMaxUnacceptedClusters on a ClusterManager is how many clusters that
	// nobody has accepted yet one user or bootstrap token may have on the hub, and how
	// many certificate requests of clusters that nobody has decided about: a number
	// such as "50", or "0" for no limit. Clusters that the hub has accepted by itself
	// because of a bootstrap token count for the token. Who may accept clusters has no
	// limit. Default: MaxUnacceptedClustersDefault.
	AnnotationMaxUnacceptedClusters = "fleet.capstan.io/max-unaccepted-clusters"
	// AnnotationMaxAutomaticClusters on a ClusterManager is how many clusters the hub
	// accepts by itself because of one bootstrap token; further ones wait for an
	// administrator: a number such as "50", or "0" for no limit. Default:
	// MaxAutomaticClustersDefault.
	AnnotationMaxAutomaticClusters = "fleet.capstan.io/max-automatic-clusters"
	// AnnotationMaxRequestsPerUser on a ClusterManager is how many requests for the
	// Cluster API one user may have under way at a time, and as many watches: a number
	// such as "50", or "0" for no limit. Default: MaxRequestsPerUserDefault.
	AnnotationMaxRequestsPerUser = "fleet.capstan.io/max-requests-per-user"
	// AnnotationAPIServerAddress on a ClusterManager of mode Hosted is the host name
	// or IPv4 address at which the hub's API server reaches the aggregated API server,
	// on port 443. Without it, a hub whose API server is a Service of the management
	// cluster reaches it by its Service there.
	AnnotationAPIServerAddress = "fleet.capstan.io/apiserver-address"
	// AnnotationMetricsPerCluster set to "true" on a ClusterManager makes the metrics
	// of connections to Push clusters name these, which makes as many series.
	AnnotationMetricsPerCluster = "fleet.capstan.io/metrics-per-cluster"
)

// MaxUnacceptedClustersDefault is the limit of a hub whose ClusterManager has no
// AnnotationMaxUnacceptedClusters.
const MaxUnacceptedClustersDefault = 1000

// MaxAutomaticClustersDefault is the limit of a hub whose ClusterManager has no
// AnnotationMaxAutomaticClusters.
const MaxAutomaticClustersDefault = 100

// MaxRequestsPerUserDefault is the limit of a hub whose ClusterManager has no
// AnnotationMaxRequestsPerUser.
const MaxRequestsPerUserDefault = 200

// MaxUnacceptedClusters returns the limit that the annotations of the
// ClusterManager set for clusters of one user that wait for acceptance; 0 is
// none.
func (c *ClusterManager) MaxUnacceptedClusters() (int, error) {
	return c.limit(AnnotationMaxUnacceptedClusters, MaxUnacceptedClustersDefault)
}

// MaxAutomaticClusters returns the limit that the annotations of the ClusterManager
// set for clusters that are accepted automatically because of one bootstrap token; 0
// is none.
func (c *ClusterManager) MaxAutomaticClusters() (int, error) {
	return c.limit(AnnotationMaxAutomaticClusters, MaxAutomaticClustersDefault)
}

// MaxRequestsPerUser returns the limit that the annotations of the ClusterManager
// set for requests of one user for the Cluster API; 0 is none.
func (c *ClusterManager) MaxRequestsPerUser() (int, error) {
	return c.limit(AnnotationMaxRequestsPerUser, MaxRequestsPerUserDefault)
}

// MetricsPerCluster reports whether the annotations of the ClusterManager ask for metrics
// that name clusters.
func (c *ClusterManager) MetricsPerCluster() (bool, error) {
	value, ok := c.Annotations[AnnotationMetricsPerCluster]
	if !ok {
		return false, nil
	}
	asked, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("annotation %s is %q, which is neither true nor false", AnnotationMetricsPerCluster, value)
	}
	return asked, nil
}

// limit returns the limit that an annotation sets.
func (c *ClusterManager) limit(annotation string, byDefault int) (int, error) {
	value, ok := c.Annotations[annotation]
	if !ok {
		return byDefault, nil
	}
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 0 {
		return 0, fmt.Errorf("annotation %s is %q, which is not a number such as 50, or 0 for no limit", annotation, value)
	}
	return limit, nil
}

// Further condition types of ClusterManager, present only while they apply.
const (
	// ClusterManagerConditionPaused (True): the operator does not reconcile the
	// hub.
	ClusterManagerConditionPaused = "Paused"
	// ClusterManagerConditionDeleting (True): the message says what the removal of
	// the hub is waiting for.
	ClusterManagerConditionDeleting = "Deleting"
)

const (
	// ClusterManagerReasonPausedByAnnotation (Paused=True): the annotation is set.
	ClusterManagerReasonPausedByAnnotation = "PausedByAnnotation"
)

// Reasons of Deleting, all True.
const (
	// ClusterManagerReasonClustersLoseWorks: the works of joined clusters are about
	// to be deleted; the message has their count and the time.
	ClusterManagerReasonClustersLoseWorks = "ClustersLoseWorks"
	// ClusterManagerReasonResourcesRemaining: objects created by users remain; the
	// message has their kinds, count and names.
	ClusterManagerReasonResourcesRemaining = "ResourcesRemaining"
	// ClusterManagerReasonRemovingHub: what the operator installed is being removed.
	ClusterManagerReasonRemovingHub = "RemovingHub"
	// ClusterManagerReasonWaitingForHub: the hub cannot be reached, so what is
	// installed there cannot be removed; mode Hosted only.
	ClusterManagerReasonWaitingForHub = "WaitingForHub"
	// ClusterManagerReasonCleanupFailed: an object could not be removed.
	ClusterManagerReasonCleanupFailed = "CleanupFailed"
)

// Further reasons of Applied, all False.
const (
	// ClusterManagerReasonInstalling: the first installation is waiting; the
	// message says for what.
	ClusterManagerReasonInstalling = "Installing"
	// ClusterManagerReasonConfigurationNotSupported: the spec asks for a driver
	// that this version does not support, or an annotation has an invalid value.
	ClusterManagerReasonConfigurationNotSupported = "ConfigurationNotSupported"
	// ClusterManagerReasonAnotherClusterManager: an older ClusterManager already
	// runs a hub on this cluster.
	ClusterManagerReasonAnotherClusterManager = "AnotherClusterManager"
	// ClusterManagerReasonCertificateFailed: a serving certificate could not be
	// issued.
	ClusterManagerReasonCertificateFailed = "CertificateFailed"
)

// Reasons of Applied, all False, for a hub that the operator cannot reach or
// use; mode Hosted only. What already runs keeps running.
const (
	// ClusterManagerReasonExternalHubKubeConfigMissing: the Secret
	// external-hub-kubeconfig is missing or has no kubeconfig.
	ClusterManagerReasonExternalHubKubeConfigMissing = "ExternalHubKubeConfigMissing"
	// ClusterManagerReasonExternalHubKubeConfigMalformed: the kubeconfig cannot be
	// used.
	ClusterManagerReasonExternalHubKubeConfigMalformed = "ExternalHubKubeConfigMalformed"
	// ClusterManagerReasonHubUnreachable: the hub does not answer.
	ClusterManagerReasonHubUnreachable = "HubUnreachable"
	// ClusterManagerReasonHubUntrusted: the certificate of the hub is not trusted.
	ClusterManagerReasonHubUntrusted = "HubUntrusted"
	// ClusterManagerReasonHubUnauthorized: the hub rejects the credential.
	ClusterManagerReasonHubUnauthorized = "HubUnauthorized"
	// ClusterManagerReasonHubForbidden: the credential lacks permissions on the
	// hub.
	ClusterManagerReasonHubForbidden = "HubForbidden"
)
