// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of ControlPlane.
const (
	// ControlPlaneConditionAvailable reports whether the API server serves and its
	// controllers run.
	ControlPlaneConditionAvailable = "Available"
	// ControlPlaneConditionProgressing reports whether the operator is installing or
	// changing something.
	ControlPlaneConditionProgressing = "Progressing"
	// ControlPlaneConditionDegraded reports whether something keeps the control
	// plane from being as the spec describes: a mistake, a failure, or replicas that
	// are missing.
	ControlPlaneConditionDegraded = "Degraded"
	// ControlPlaneConditionCertificatesValid reports whether all certificates are
	// valid and renewed in time.
	ControlPlaneConditionCertificatesValid = "CertificatesValid"
	// ControlPlaneConditionEtcdReady reports whether etcd works.
	ControlPlaneConditionEtcdReady = "EtcdReady"
	// ControlPlaneConditionAPIServerReady reports whether the API server serves.
	ControlPlaneConditionAPIServerReady = "APIServerReady"
	// ControlPlaneConditionControllerManagerReady reports whether the controller
	// manager runs.
	ControlPlaneConditionControllerManagerReady = "ControllerManagerReady"
	// ControlPlaneConditionKubeconfigReady reports whether the Secret has a
	// kubeconfig that works.
	ControlPlaneConditionKubeconfigReady = "KubeconfigReady"
	// ControlPlaneConditionDataRetained is True while a ControlPlane is deleted whose
	// data are kept; the message says where.
	ControlPlaneConditionDataRetained = "DataRetained"
	// ControlPlaneConditionHeld is there while annotation fleet.capstan.io/hold is: it
	// is True once the control plane is as the annotation says.
	ControlPlaneConditionHeld = "Held"
)

// Reasons of the conditions of ControlPlane.
const (
	// ControlPlaneReasonAsExpected: there is nothing to report.
	ControlPlaneReasonAsExpected = "AsExpected"
	// ControlPlaneReasonInstalling: it is being installed or changed; the message
	// says what is waited for.
	ControlPlaneReasonInstalling = "Installing"
	// ControlPlaneReasonUpgrading: another version is being rolled out.
	ControlPlaneReasonUpgrading = "Upgrading"
	// ControlPlaneReasonRotating: an authority or a key is being replaced.
	ControlPlaneReasonRotating = "Rotating"
	// ControlPlaneReasonRotated: an authority or a key has been replaced.
	ControlPlaneReasonRotated = "Rotated"
	// ControlPlaneReasonPodsNotReady: pods are not ready; the message says why.
	ControlPlaneReasonPodsNotReady = "PodsNotReady"
	// ControlPlaneReasonImagePullFailed: an image cannot be pulled.
	ControlPlaneReasonImagePullFailed = "ImagePullFailed"
	// ControlPlaneReasonPodsCrashing: a container terminates again and again.
	ControlPlaneReasonPodsCrashing = "PodsCrashing"
	// ControlPlaneReasonUnschedulable: no node takes a pod.
	ControlPlaneReasonUnschedulable = "Unschedulable"
	// ControlPlaneReasonStorageUnavailable: the host has no (default) StorageClass,
	// or a volume is not provisioned.
	ControlPlaneReasonStorageUnavailable = "StorageUnavailable"
	// ControlPlaneReasonPortTaken: the nodePort is in use by another Service.
	ControlPlaneReasonPortTaken = "PortTaken"
	// ControlPlaneReasonNoAddress: the Service has no address yet.
	ControlPlaneReasonNoAddress = "NoAddress"
	// ControlPlaneReasonExternalEtcdInvalid: the Secret of an external etcd is
	// missing or unusable, or its certificate has expired.
	ControlPlaneReasonExternalEtcdInvalid = "ExternalEtcdInvalid"
	// ControlPlaneReasonEtcdOutOfSpace: the database of etcd has reached its limit,
	// so etcd stores nothing more.
	ControlPlaneReasonEtcdOutOfSpace = "EtcdOutOfSpace"
	// ControlPlaneReasonUnsupportedVersion: the version cannot be changed to that in
	// the spec.
	ControlPlaneReasonUnsupportedVersion = "UnsupportedVersion"
	// ControlPlaneReasonAuditPolicyMissing: the ConfigMap with the audit policy is
	// missing or unusable.
	ControlPlaneReasonAuditPolicyMissing = "AuditPolicyMissing"
	// ControlPlaneReasonNameInUse: an object of that name exists already and is not
	// of this ControlPlane.
	ControlPlaneReasonNameInUse = "NameInUse"
	// ControlPlaneReasonRetainedDataMismatch: the data that a former ControlPlane of
	// this name left behind cannot be used with the spec, or their keys are missing.
	ControlPlaneReasonRetainedDataMismatch = "RetainedDataMismatch"
	// ControlPlaneReasonMissingPermissions: the operator has no permissions in the
	// namespace; the message says how to grant them.
	ControlPlaneReasonMissingPermissions = "MissingPermissions"
	// ControlPlaneReasonNotReachable: the API server does not respond to the
	// operator.
	ControlPlaneReasonNotReachable = "NotReachable"
	// ControlPlaneReasonExpiresSoon: a certificate expires soon and was not renewed.
	ControlPlaneReasonExpiresSoon = "ExpiresSoon"
	// ControlPlaneReasonApplyFailed: an object could not be written.
	ControlPlaneReasonApplyFailed = "ApplyFailed"
	// ControlPlaneReasonStopped: annotation fleet.capstan.io/hold says that no pod runs.
	ControlPlaneReasonStopped = "Stopped"
	// ControlPlaneReasonClosed: annotation fleet.capstan.io/hold says that nobody
	// reaches the API server.
	ControlPlaneReasonClosed = "Closed"
	// ControlPlaneReasonUnknownHold: annotation fleet.capstan.io/hold has another value.
	ControlPlaneReasonUnknownHold = "UnknownHold"
	// ControlPlaneReasonRemoving: the control plane is being removed.
	ControlPlaneReasonRemoving = "Removing"
	// ControlPlaneReasonRetained: the data are kept.
	ControlPlaneReasonRetained = "Retained"
)
