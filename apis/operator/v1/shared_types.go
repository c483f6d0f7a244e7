// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// InstallMode tells how components are laid out.
type InstallMode string

const (
	// InstallModeDefault runs components on the cluster they are for. On a member
	// registration and work agent are two Deployments.
	InstallModeDefault InstallMode = "Default"
	// InstallModeHosted runs components on another cluster than they are for.
	InstallModeHosted InstallMode = "Hosted"
	// InstallModeSingleton runs one agent for everything, on the member.
	InstallModeSingleton InstallMode = "Singleton"
	// InstallModeSingletonHosted runs one agent for everything, on another cluster
	// than the member.
	InstallModeSingletonHosted InstallMode = "SingletonHosted"
)

// NodePlacement tells which nodes pods may run on.
type NodePlacement struct {
	// nodeSelector has labels that a node has to have. Default: none, so that any
	// node will do.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are put onto the pods, so that they may run on nodes with these
	// taints. Default: none.
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// FeatureGate turns one feature on or off.
type FeatureGate struct {
	// feature is the name of the feature. The condition ValidFeatureGates tells if
	// there is no such feature.
	// +required
	// +kubebuilder:validation:Required
	Feature string `json:"feature"`

	// mode is Enable or Disable. Default: Disable. A feature that is not listed
	// has its own default.
	// +optional
	// +kubebuilder:validation:Enum=Enable;Disable
	// +kubebuilder:default=Disable
	Mode FeatureGateMode `json:"mode,omitempty"`
}

// FeatureGateMode tells whether a feature is on.
type FeatureGateMode string

const (
	// FeatureGateModeEnable turns a feature on.
	FeatureGateModeEnable FeatureGateMode = "Enable"
	// FeatureGateModeDisable turns a feature off.
	FeatureGateModeDisable FeatureGateMode = "Disable"
)

// ResourceRequirement tells which resources the containers of the installed
// pods ask for.
type ResourceRequirement struct {
	// type is Default for a request of 2m CPU and 16Mi memory without limits,
	// BestEffort for no requests and limits, or ResourceRequirement for those in
	// resourceRequirements. Default: Default.
	// +kubebuilder:validation:Enum=Default;BestEffort;ResourceRequirement
	// +kubebuilder:default=Default
	Type ResourceQosClass `json:"type"`

	// resourceRequirements are the requests and limits of each container, with
	// type ResourceRequirement.
	// +optional
	ResourceRequirements *corev1.ResourceRequirements `json:"resourceRequirements,omitempty"`
}

// ResourceQosClass tells where requests and limits of containers come from.
type ResourceQosClass string

const (
	// ResourceQosClassDefault has small requests and no limits.
	ResourceQosClassDefault ResourceQosClass = "Default"
	// ResourceQosClassBestEffort has neither requests nor limits.
	ResourceQosClassBestEffort ResourceQosClass = "BestEffort"
	// ResourceQosClassResourceRequirement has those that the user gives.
	ResourceQosClassResourceRequirement ResourceQosClass = "ResourceRequirement"
)

// Ways in which agents authenticate to the hub (authType of registration
// drivers).
const (
	// AuthTypeCSR is client certificates by certificate signing requests.
	AuthTypeCSR = "csr"
	// AuthTypeAWSIRSA is AWS roles of service accounts.
	AuthTypeAWSIRSA = "awsirsa"
	// AuthTypeGRPC is client certificates by the hub's gRPC server.
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

	// namespace is the namespace of the object; empty for objects without one.
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`
}

// GenerationStatus has the generation of an object that an operator manages.
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

	// namespace is the namespace of the object; empty for objects without one.
	// +optional
	Namespace string `json:"namespace"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`

	// lastGeneration is metadata.generation of the object as the operator has
	// last written it.
	// +required
	// +kubebuilder:validation:Required
	LastGeneration int64 `json:"lastGeneration"`
}
