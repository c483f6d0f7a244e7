// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Condition types of ClusterManager.
const (
	// ClusterManagerConditionApplied tells whether everything that makes the hub
	// was installed as the spec has it.
	ClusterManagerConditionApplied = "Applied"
	// ClusterManagerConditionProgressing tells whether Deployments are on their way
	// to the installed state.
	ClusterManagerConditionProgressing = "Progressing"
	// ClusterManagerConditionHubRegistrationDegraded tells whether pods of the
	// registration controller or webhook are missing.
	ClusterManagerConditionHubRegistrationDegraded = "HubRegistrationDegraded"
	// ClusterManagerConditionHubPlacementDegraded tells whether pods of the
	// placement controller are missing.
	ClusterManagerConditionHubPlacementDegraded = "HubPlacementDegraded"
	// ClusterManagerConditionValidFeatureGates tells whether all feature gates in
	// the spec exist.
	ClusterManagerConditionValidFeatureGates = "ValidFeatureGates"
	// ClusterManagerConditionMigrationSucceeded tells whether stored objects were
	// brought to their storage version. No version we have needs it.
	ClusterManagerConditionMigrationSucceeded = "MigrationSucceeded"
)

// Reasons of Applied.
const (
	// ClusterManagerReasonApplied (True): everything was installed.
	ClusterManagerReasonApplied = "ClusterManagerApplied"
	// ClusterManagerReasonCRDApplyFailed (False): a CustomResourceDefinition could
	// not be written, or not be removed.
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
	// ClusterManagerReasonDeploymentRolling (True): a Deployment has pods of an
	// earlier state; the message names it.
	ClusterManagerReasonDeploymentRolling = "ClusterManagerDeploymentRolling"
	// ClusterManagerReasonUpToDate (False): all pods are of the installed state.
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
	// ClusterManagerReasonPlacementFunctional (False): all pods are available, or
	// placement is not part of this hub.
	ClusterManagerReasonPlacementFunctional = "PlacementFunctional"
	// ClusterManagerReasonUnavailablePlacementPod (True): pods are missing.
	ClusterManagerReasonUnavailablePlacementPod = "UnavailablePlacementPod"
	// ClusterManagerReasonGetPlacementDeploymentFailed (True): the Deployment could
	// not be read.
	ClusterManagerReasonGetPlacementDeploymentFailed = "GetPlacementDeploymentFailed"
)

// Reasons of MigrationSucceeded.
const (
	// ClusterManagerReasonStorageVersionMigrationSucceeded (True): all stored
	// objects have their storage version.
	ClusterManagerReasonStorageVersionMigrationSucceeded = "StorageVersionMigrationSucceed"
	// ClusterManagerReasonStorageVersionMigrationProcessing (False): it is going on.
	ClusterManagerReasonStorageVersionMigrationProcessing = "StorageVersionMigrationProcessing"
	// ClusterManagerReasonStorageVersionMigrationFailed (False): it failed.
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
