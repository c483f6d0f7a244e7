// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// InstallMode is where components run, and in how many Deployments.
type InstallMode string

const (
	// InstallModeDefault runs components on the cluster that they serve. On a
	// member the registration and work agents are two Deployments.
	InstallModeDefault InstallMode = "Default"
	// InstallModeHosted runs components on a different cluster than the one that
	// they serve.
	InstallModeHosted InstallMode = "Hosted"
	// InstallModeSingleton runs one agent for everything, on the member.
	InstallModeSingleton InstallMode = "Singleton"
	// InstallModeSingletonHosted runs one agent for everything, on a different
	// cluster than the member.
	InstallModeSingletonHosted InstallMode = "SingletonHosted"
)

// NodePlacement controls which nodes pods are scheduled to.
type NodePlacement struct {
	// nodeSelector is a set of labels that a node must have. Default: none, any
	// node matches.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are added to the pods, so that they can be scheduled to nodes
	// with matching taints. Default: none.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// FeatureGate turns one feature on or off.
type FeatureGate struct {
	// feature is the name of the feature. Unknown names are reported by the
	// condition ValidFeatureGates.
	// +required
	// +kubebuilder:validation:Required
	Feature string `json:"feature"`

	// mode is Enable or Disable. Default: Disable. Features that are not listed
	// keep their defaults.
	// +optional
	// +kubebuilder:validation:Enum=Enable;Disable
	// +kubebuilder:default=Disable
	Mode FeatureGateMode `json:"mode,omitempty"`
}

// FeatureGateMode is whether a feature is on.
type FeatureGateMode string

const (
	// FeatureGateModeEnable turns a feature on.
	FeatureGateModeEnable FeatureGateMode = "Enable"
	// FeatureGateModeDisable turns a feature off.
	FeatureGateModeDisable FeatureGateMode = "Disable"
)

// ResourceRequirement sets the resource requests and limits of the installed
// pods.
type ResourceRequirement struct {
	// type is Default for a request of 2m CPU (the hub's webhooks and aggregated API
	// server: 50m) and 16Mi memory, and for each program of the hub a limit of 4Gi
	// memory; BestEffort for no requests and limits; or ResourceRequirement for those
	// in resourceRequirements. Default: Default.
	// +kubebuilder:validation:Enum=Default;BestEffort;ResourceRequirement
	// +kubebuilder:default=Default
	Type ResourceQosClass `json:"type"`

	// resourceRequirements are the requests and limits of each container, used
	// with type ResourceRequirement.
	// +optional
	ResourceRequirements *corev1.ResourceRequirements `json:"resourceRequirements,omitempty"`
}

// ResourceQosClass is where requests and limits of containers come from.
type ResourceQosClass string

const (
	// ResourceQosClassDefault has small requests and no limits.
	ResourceQosClassDefault ResourceQosClass = "Default"
	// ResourceQosClassBestEffort has neither requests nor limits.
	ResourceQosClassBestEffort ResourceQosClass = "BestEffort"
	// ResourceQosClassResourceRequirement uses those that the user specifies.
	ResourceQosClassResourceRequirement ResourceQosClass = "ResourceRequirement"
)

// Ways in which agents authenticate to the hub (authType of registration
// drivers).
const (
	// AuthTypeCSR is client certificates issued through certificate signing
	// requests.
	AuthTypeCSR = "csr"
	// AuthTypeAWSIRSA is AWS IAM roles for service accounts.
	AuthTypeAWSIRSA = "awsirsa"
	// AuthTypeGRPC is client certificates issued through the hub's gRPC server.
	AuthTypeGRPC = "grpc"
	// AuthTypeToken is service account tokens; for add-ons only.
	AuthTypeToken = "token"
)

// RelatedResourceMeta names an object that an operator manages.
type RelatedResourceMeta struct {
	// group is the API group of the object; empty is the core group.
	// +required
	// +kubebuilder:validation:Required
	Group string `json:"group"`

	// version is the API version of the object.
	// +required
	// +kubebuilder:validation:Required
	Version string `json:"version"`

	// resource is the plural name of the object's kind.
	// +required
	// +kubebuilder:validation:Required
	Resource string `json:"resource"`

	// namespace is the namespace of the object; empty for cluster-scoped objects.
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`
}

// GenerationStatus records the generation of an object that an operator
// manages.
type GenerationStatus struct {
	// group is the API group of the object; empty is the core group.
	// +required
	// +kubebuilder:validation:Required
	Group string `json:"group"`

	// version is the API version of the object.
	// +required
	// +kubebuilder:validation:Required
	Version string `json:"version"`

	// resource is the plural name of the object's kind.
	// +required
	// +kubebuilder:validation:Required
	Resource string `json:"resource"`

	// namespace is the namespace of the object; empty for cluster-scoped objects.
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`

	// lastGeneration is the object's metadata.generation after the operator last
	// wrote it.
	// +required
	// +kubebuilder:validation:Required
	LastGeneration int64 `json:"lastGeneration"`
}
