// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of Klusterlet. Joined, which tells how far the member is with
// joining, stands in klusterlet_handshake.go.
const (
	// KlusterletConditionApplied tells whether everything that makes the agents was
	// installed as the spec has it.
	KlusterletConditionApplied = "Applied"
	// KlusterletConditionReadyToApply tells, in mode Hosted, whether the member can
	// be reached to install what the agents need there.
	KlusterletConditionReadyToApply = "ReadyToApply"
	// KlusterletConditionAvailable tells whether agents run.
	KlusterletConditionAvailable = "Available"
	// KlusterletConditionHubConnectionDegraded tells whether the agents have what
	// they need to work with the hub.
	KlusterletConditionHubConnectionDegraded = "HubConnectionDegraded"
	// KlusterletConditionRegistrationDesiredDegraded tells whether pods of the
	// registration agent are missing.
	KlusterletConditionRegistrationDesiredDegraded = "RegistrationDesiredDegraded"
	// KlusterletConditionWorkDesiredDegraded tells whether pods of the work agent
	// are missing.
	KlusterletConditionWorkDesiredDegraded = "WorkDesiredDegraded"
	// KlusterletConditionValidFeatureGates tells whether all feature gates in the
	// spec exist. Its reasons are those of ClusterManager.
	KlusterletConditionValidFeatureGates = "ValidFeatureGates"
)

// Reasons of Applied.
const (
	// KlusterletReasonApplied (True): everything was installed.
	KlusterletReasonApplied = "KlusterletApplied"
	// KlusterletReasonApplyFailed (False): something could not be written, or not
	// be removed.
	KlusterletReasonApplyFailed = "KlusterletApplyFailed"
	// KlusterletReasonCRDApplyFailed (False): a CustomResourceDefinition could not
	// be written.
	KlusterletReasonCRDApplyFailed = "CRDApplyFailed"
	// KlusterletReasonManagedClusterResourceApplyFailed (False): a role, service
	// account or namespace on the member could not be written.
	KlusterletReasonManagedClusterResourceApplyFailed = "ManagedClusterResourceApplyFailed"
	// KlusterletReasonManagementClusterResourceApplyFailed (False): a role, service
	// account or Deployment on the cluster that the agents run on could not be
	// written.
	KlusterletReasonManagementClusterResourceApplyFailed = "ManagementClusterResourceApplyFailed"
)

// Reasons of ReadyToApply.
const (
	// KlusterletReasonPrepared (True): the member can be reached.
	KlusterletReasonPrepared = "KlusterletPrepared"
	// KlusterletReasonPrepareFailed (False): secret external-managed-kubeconfig is
	// missing, or does not lead to the member.
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

// Reasons of HubConnectionDegraded. If one of the two kubeconfigs is in order and
// the other is not, or neither is, the reason is that of the bootstrap kubeconfig,
// a comma, and that of the hub kubeconfig.
const (
	// KlusterletReasonHubConnectionFunctional (False): the hub kubeconfig works.
	KlusterletReasonHubConnectionFunctional = "HubConnectionFunctional"

	// KlusterletReasonBootstrapSecretFunctional: the bootstrap kubeconfig works.
	KlusterletReasonBootstrapSecretFunctional = "BootstrapSecretFunctional"
	// KlusterletReasonBootstrapSecretMissing: there is no secret
	// bootstrap-hub-kubeconfig in the namespace of the agents.
	KlusterletReasonBootstrapSecretMissing = "BootstrapSecretMissing"
	// KlusterletReasonBootstrapSecretError: the bootstrap kubeconfig is not valid,
	// or the hub it leads to does not answer.
	KlusterletReasonBootstrapSecretError = "BootstrapSecretError"
	// KlusterletReasonBootstrapSecretUnauthorized: the hub does not let the
	// bootstrap identity register.
	KlusterletReasonBootstrapSecretUnauthorized = "BootstrapSecretUnauthorized"

	// KlusterletReasonHubKubeConfigSecretMissing: there is no secret
	// hub-kubeconfig-secret yet; the agent makes it when it has registered.
	KlusterletReasonHubKubeConfigSecretMissing = "HubKubeConfigSecretMissing"
	// KlusterletReasonHubKubeConfigMissing: the secret has no kubeconfig yet.
	KlusterletReasonHubKubeConfigMissing = "HubKubeConfigMissing"
	// KlusterletReasonHubKubeConfigError: the hub kubeconfig is not valid, or the
	// hub does not answer.
	KlusterletReasonHubKubeConfigError = "HubKubeConfigError"
	// KlusterletReasonClusterNameMissing: the secret has no cluster name.
	KlusterletReasonClusterNameMissing = "ClusterNameMissing"
	// KlusterletReasonHubKubeConfigUnauthorized: the hub does not give the agent
	// the rights that it needs.
	KlusterletReasonHubKubeConfigUnauthorized = "HubKubeConfigUnauthorized"
)
