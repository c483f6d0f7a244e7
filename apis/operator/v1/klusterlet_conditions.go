// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of Klusterlet. Joined, which reports the progress of the
// join, is in klusterlet_handshake.go.
const (
	// KlusterletConditionApplied reports whether the agents are installed as the
	// spec describes.
	KlusterletConditionApplied = "Applied"
	// KlusterletConditionReadyToApply reports, in mode Hosted, whether the
	// operator can reach the member to install what the agents need there.
	KlusterletConditionReadyToApply = "ReadyToApply"
	// KlusterletConditionAvailable reports whether the agents are running.
	KlusterletConditionAvailable = "Available"
	// KlusterletConditionHubConnectionDegraded reports whether the agents have a
	// working connection to the hub.
	KlusterletConditionHubConnectionDegraded = "HubConnectionDegraded"
	// KlusterletConditionRegistrationDesiredDegraded reports whether the
	// registration agent has too few available pods.
	KlusterletConditionRegistrationDesiredDegraded = "RegistrationDesiredDegraded"
	// KlusterletConditionWorkDesiredDegraded reports whether the work agent has
	// too few available pods.
	KlusterletConditionWorkDesiredDegraded = "WorkDesiredDegraded"
	// KlusterletConditionValidFeatureGates reports whether all feature gates in
	// the spec exist. Its reasons are those of ClusterManager.
	KlusterletConditionValidFeatureGates = "ValidFeatureGates"
)

// Reasons of Applied.
const (
	// KlusterletReasonApplied (True): everything was installed.
	KlusterletReasonApplied = "KlusterletApplied"
	// KlusterletReasonApplyFailed (False): an object could not be written or
	// removed.
	KlusterletReasonApplyFailed = "KlusterletApplyFailed"
	// KlusterletReasonCRDApplyFailed (False): a CustomResourceDefinition could not
	// be written.
	KlusterletReasonCRDApplyFailed = "CRDApplyFailed"
	// KlusterletReasonManagedClusterResourceApplyFailed (False): a role, service
	// account or namespace on the member could not be written.
	KlusterletReasonManagedClusterResourceApplyFailed = "ManagedClusterResourceApplyFailed"
	// KlusterletReasonManagementClusterResourceApplyFailed (False): a role,
	// service account or Deployment on the cluster where the agents run could not
	// be written.
	KlusterletReasonManagementClusterResourceApplyFailed = "ManagementClusterResourceApplyFailed"
)

// Reasons of ReadyToApply.
const (
	// KlusterletReasonPrepared (True): the member can be reached.
	KlusterletReasonPrepared = "KlusterletPrepared"
	// KlusterletReasonPrepareFailed (False): secret external-managed-kubeconfig is
	// missing, or does not reach the member.
	KlusterletReasonPrepareFailed = "KlusterletPrepareFailed"
)

// Reasons of Available.
const (
	// KlusterletReasonAvailable (True): each agent has an available pod.
	KlusterletReasonAvailable = "KlusterletAvailable"
	// KlusterletReasonNoAvailablePods (False): an agent has no available pod.
	KlusterletReasonNoAvailablePods = "NoAvailablePods"
)

// Reasons of RegistrationDesiredDegraded and WorkDesiredDegraded.
const (
	// KlusterletReasonDeploymentsFunctional (False): all pods are available.
	KlusterletReasonDeploymentsFunctional = "DeploymentsFunctional"
	// KlusterletReasonUnavailablePods (True): pods are missing.
	KlusterletReasonUnavailablePods = "UnavailablePods"
	// KlusterletReasonGetDeploymentFailed (True; False for Available): the
	// Deployment could not be read.
	KlusterletReasonGetDeploymentFailed = "GetDeploymentFailed"
)

// Reasons of HubConnectionDegraded. Unless both kubeconfigs work, the reason is
// that of the bootstrap kubeconfig, a comma, and that of the hub kubeconfig.
const (
	// KlusterletReasonHubConnectionFunctional (False): the hub kubeconfig works.
	KlusterletReasonHubConnectionFunctional = "HubConnectionFunctional"

	// KlusterletReasonBootstrapSecretFunctional: the bootstrap kubeconfig works.
	KlusterletReasonBootstrapSecretFunctional = "BootstrapSecretFunctional"
	// KlusterletReasonBootstrapSecretMissing: there is no secret
	// bootstrap-hub-kubeconfig in the namespace of the agents.
	KlusterletReasonBootstrapSecretMissing = "BootstrapSecretMissing"
	// KlusterletReasonBootstrapSecretError: the bootstrap kubeconfig is not valid,
	// or its hub does not answer.
	KlusterletReasonBootstrapSecretError = "BootstrapSecretError"
	// KlusterletReasonBootstrapSecretUnauthorized: the bootstrap identity is not
	// allowed to register on the hub.
	KlusterletReasonBootstrapSecretUnauthorized = "BootstrapSecretUnauthorized"

	// KlusterletReasonHubKubeConfigSecretMissing: there is no secret
	// hub-kubeconfig-secret yet; it is filled once the agent has registered.
	KlusterletReasonHubKubeConfigSecretMissing = "HubKubeConfigSecretMissing"
	// KlusterletReasonHubKubeConfigMissing: the secret has no kubeconfig yet.
	KlusterletReasonHubKubeConfigMissing = "HubKubeConfigMissing"
	// KlusterletReasonHubKubeConfigError: the hub kubeconfig is not valid, or the
	// hub does not answer.
	KlusterletReasonHubKubeConfigError = "HubKubeConfigError"
	// KlusterletReasonClusterNameMissing: the secret has no cluster name.
	KlusterletReasonClusterNameMissing = "ClusterNameMissing"
	// KlusterletReasonHubKubeConfigUnauthorized: the agent lacks permissions on
	// the hub.
	KlusterletReasonHubKubeConfigUnauthorized = "HubKubeConfigUnauthorized"
)
