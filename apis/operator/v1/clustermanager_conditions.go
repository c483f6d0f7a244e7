// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of ClusterManager.
const (
	// ClusterManagerConditionApplied reports whether the hub is installed as the
	// spec describes.
	ClusterManagerConditionApplied = "Applied"
	// ClusterManagerConditionProgressing reports whether a rollout is in progress.
	ClusterManagerConditionProgressing = "Progressing"
	// ClusterManagerConditionHubRegistrationDegraded reports whether the
	// registration controller or webhook has too few available pods.
	ClusterManagerConditionHubRegistrationDegraded = "HubRegistrationDegraded"
	// ClusterManagerConditionHubPlacementDegraded reports whether the placement
	// controller has too few available pods.
	ClusterManagerConditionHubPlacementDegraded = "HubPlacementDegraded"
	// ClusterManagerConditionHubPropagationDegraded reports whether the propagation
	// controller has too few available pods. It is there only with the feature gate
	// Propagation.
	ClusterManagerConditionHubPropagationDegraded = "HubPropagationDegraded"
	// ClusterManagerConditionHubAPIServerDegraded reports whether the Cluster API is
	// not available. It is there only with the feature gate AggregatedAPI.
	ClusterManagerConditionHubAPIServerDegraded = "HubAPIServerDegraded"
	// ClusterManagerConditionValidFeatureGates reports whether all feature gates
	// in the spec exist.
	ClusterManagerConditionValidFeatureGates = "ValidFeatureGates"
	// ClusterManagerConditionMigrationSucceeded reports whether stored objects
	// were migrated to the current storage version. No released version needs a
	// migration.
	ClusterManagerConditionMigrationSucceeded = "MigrationSucceeded"
)

// Reasons of Applied.
const (
	// ClusterManagerReasonApplied (True): everything was installed.
	ClusterManagerReasonApplied = "ClusterManagerApplied"
	// ClusterManagerReasonCRDApplyFailed (False): a CustomResourceDefinition could
	// not be written or removed.
	ClusterManagerReasonCRDApplyFailed = "CRDApplyFailed"
	// ClusterManagerReasonHubResourceApplyFailed (False): a role, service account,
	// service or network policy on the hub could not be written.
	ClusterManagerReasonHubResourceApplyFailed = "HubResourceApplyFailed"
	// ClusterManagerReasonServiceAccountSyncFailed (False): the credentials of a
	// service account could not be made available to its Deployment.
	ClusterManagerReasonServiceAccountSyncFailed = "ServiceAccountSyncFailed"
	// ClusterManagerReasonRuntimeResourceApplyFailed (False): a Deployment could
	// not be written.
	ClusterManagerReasonRuntimeResourceApplyFailed = "RuntimeResourceApplyFailed"
	// ClusterManagerReasonWebhookApplyFailed (False): a webhook configuration could
	// not be written.
	ClusterManagerReasonWebhookApplyFailed = "WebhookApplyFailed"
)

// Reasons of Progressing.
const (
	// ClusterManagerReasonDeploymentRolling (True): a Deployment still has
	// outdated pods; the message names it.
	ClusterManagerReasonDeploymentRolling = "ClusterManagerDeploymentRolling"
	// ClusterManagerReasonUpToDate (False): all pods are up to date.
	ClusterManagerReasonUpToDate = "ClusterManagerUpToDate"
)

// Reasons of HubRegistrationDegraded.
const (
	// ClusterManagerReasonRegistrationFunctional (False): all pods are available.
	ClusterManagerReasonRegistrationFunctional = "RegistrationFunctional"
	// ClusterManagerReasonUnavailableRegistrationPod (True): pods are missing.
	ClusterManagerReasonUnavailableRegistrationPod = "UnavailableRegistrationPod"
	// ClusterManagerReasonGetRegistrationDeploymentFailed (True): the Deployment
	// could not be read.
	ClusterManagerReasonGetRegistrationDeploymentFailed = "GetRegistrationDeploymentFailed"
)

// Reasons of HubPlacementDegraded.
const (
	// ClusterManagerReasonPlacementFunctional (False): all pods are available.
	ClusterManagerReasonPlacementFunctional = "PlacementFunctional"
	// ClusterManagerReasonUnavailablePlacementPod (True): pods are missing.
	ClusterManagerReasonUnavailablePlacementPod = "UnavailablePlacementPod"
	// ClusterManagerReasonGetPlacementDeploymentFailed (True): the Deployment could
	// not be read.
	ClusterManagerReasonGetPlacementDeploymentFailed = "GetPlacementDeploymentFailed"
)

// Reasons of HubPropagationDegraded.
const (
	// ClusterManagerReasonPropagationFunctional (False): all pods are available.
	ClusterManagerReasonPropagationFunctional = "PropagationFunctional"
	// ClusterManagerReasonUnavailablePropagationPod (True): pods are missing.
	ClusterManagerReasonUnavailablePropagationPod = "UnavailablePropagationPod"
)

// Reasons of HubAPIServerDegraded.
const (
	// ClusterManagerReasonAPIServerFunctional (False): the API server has all its
	// pods, and the hub's API server reaches it.
	ClusterManagerReasonAPIServerFunctional = "APIServerFunctional"
	// ClusterManagerReasonUnavailableAPIServerPod (True): pods are missing.
	ClusterManagerReasonUnavailableAPIServerPod = "UnavailableAPIServerPod"
	// ClusterManagerReasonAPIServiceUnavailable (True): the hub's API server does not
	// reach it; the message is that of the APIService.
	ClusterManagerReasonAPIServiceUnavailable = "APIServiceUnavailable"
	// ClusterManagerReasonAPIServiceTaken (True): another program serves the API.
	ClusterManagerReasonAPIServiceTaken = "APIServiceTaken"
	// ClusterManagerReasonAPIServerAddressMissing (True): in mode Hosted, nobody told
	// where the hub's API server reaches it.
	ClusterManagerReasonAPIServerAddressMissing = "APIServerAddressMissing"
	// ClusterManagerReasonAPIServerNotPermitted (True): the operator may not install
	// it; see FeaturesLimited.
	ClusterManagerReasonAPIServerNotPermitted = "APIServerNotPermitted"
)

// Reasons of MigrationSucceeded.
const (
	// ClusterManagerReasonStorageVersionMigrationSucceeded (True): all stored
	// objects use the current storage version.
	ClusterManagerReasonStorageVersionMigrationSucceeded = "StorageVersionMigrationSucceed"
	// ClusterManagerReasonStorageVersionMigrationProcessing (False): the migration
	// is running.
	ClusterManagerReasonStorageVersionMigrationProcessing = "StorageVersionMigrationProcessing"
	// ClusterManagerReasonStorageVersionMigrationFailed (False): the migration
	// failed.
	ClusterManagerReasonStorageVersionMigrationFailed = "StorageVersionMigrationFailed"
)

// Reasons of ValidFeatureGates, of ClusterManager and Klusterlet.
const (
	// ReasonFeatureGatesAllValid (True): all feature gates in the spec exist.
	ReasonFeatureGatesAllValid = "FeatureGatesAllValid"
	// ReasonInvalidFeatureGatesExisting (False): the spec has feature gates that do
	// not exist; the message names them.
	ReasonInvalidFeatureGatesExisting = "InvalidFeatureGatesExisting"
)
