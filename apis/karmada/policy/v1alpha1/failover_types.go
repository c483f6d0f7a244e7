// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// PurgeMode is how objects are removed from a cluster that failed.
//
// +kubebuilder:validation:Enum=Directly;Gracefully;Never;Immediately;Graciously
type PurgeMode string

const (
	// PurgeModeDirectly removes them before they are created elsewhere.
	PurgeModeDirectly PurgeMode = "Directly"
	// PurgeModeGracefully removes them when they are healthy elsewhere.
	PurgeModeGracefully PurgeMode = "Gracefully"
	// PurgeModeNever leaves the removal to the user.
	PurgeModeNever PurgeMode = "Never"
	// PurgeModeImmediately is an older name of Directly.
	PurgeModeImmediately PurgeMode = "Immediately"
	// PurgeModeGraciously is an older name of Gracefully.
	PurgeModeGraciously PurgeMode = "Graciously"
)

// FailoverBehavior defines what happens to objects when something fails.
type FailoverBehavior struct {
	// application defines what happens when the objects themselves fail in a cluster.
	// +optional
	Application *ApplicationFailoverBehavior `json:"application,omitempty"`

	// cluster defines what happens when a cluster fails.
	// +optional
	Cluster *ClusterFailoverBehavior `json:"cluster,omitempty"`
}

// ApplicationFailoverBehavior defines what happens when objects fail in a cluster.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gracePeriodSeconds) || self.purgeMode in ['Gracefully', 'Graciously']",message="gracePeriodSeconds is for purgeMode Gracefully only: remove it, or change purgeMode"
type ApplicationFailoverBehavior struct {
	// decisionConditions say when the objects have failed.
	// +required
	DecisionConditions DecisionConditions `json:"decisionConditions"`

	// purgeMode is how the objects are removed from the cluster. Immediately and
	// Graciously are older names of Directly and Gracefully.
	// +kubebuilder:default=Gracefully
	// +optional
	PurgeMode PurgeMode `json:"purgeMode,omitempty"`

	// gracePeriodSeconds is for how many seconds the objects stay in the cluster at
	// most while they are created elsewhere. It is for purgeMode Gracefully. Default:
	// 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`

	// statePreservation takes parts of the status along to the next cluster.
	// +optional
	StatePreservation *StatePreservation `json:"statePreservation,omitempty"`
}

// DecisionConditions say when objects have failed.
type DecisionConditions struct {
	// tolerationSeconds is for how many seconds they may be unhealthy.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +optional
	TolerationSeconds *int32 `json:"tolerationSeconds,omitempty"`
}

// ClusterFailoverBehavior defines what happens when a cluster fails.
type ClusterFailoverBehavior struct {
	// purgeMode is how the objects are removed from the cluster: Directly or
	// Gracefully. Immediately and Graciously are older names of these.
	// +kubebuilder:default=Gracefully
	// +kubebuilder:validation:XValidation:rule="self != 'Never'",message="a cluster that failed cannot be asked to keep objects: use Directly or Gracefully"
	// +optional
	PurgeMode PurgeMode `json:"purgeMode,omitempty"`

	// statePreservation takes parts of the status along to the next cluster.
	// +optional
	StatePreservation *StatePreservation `json:"statePreservation,omitempty"`
}

// StatePreservation takes parts of the status along to the next cluster.
type StatePreservation struct {
	// rules list what is taken along.
	// +required
	// +kubebuilder:validation:MaxItems=100
	Rules []StatePreservationRule `json:"rules"`
}

// StatePreservationRule is a part of the status.
type StatePreservationRule struct {
	// aliasLabelName is the label of the object in the next cluster that gets the
	// value.
	// +required
	AliasLabelName string `json:"aliasLabelName"`

	// jsonPath is where the value is in the status, such as {.jobId}.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	JSONPath string `json:"jsonPath"`
}
