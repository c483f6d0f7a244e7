// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// ManifestWorkReplicaSet delivers the same objects to all members that Placements
// of its namespace choose: it creates a ManifestWork for each member, updates
// them when the template changes, as the rollout strategy says, and deletes those
// of members that are no longer chosen. Needs feature gate ManifestWorkReplicaSet
// on the hub.
//
// Namespace and name together must have at most 62 characters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=manifestworkreplicasets,shortName=mwrs,scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Placement",type="string",JSONPath=".status.conditions[?(@.type==\"PlacementVerified\")].reason",description="Reason"
// +kubebuilder:printcolumn:name="Found",type="string",JSONPath=".status.conditions[?(@.type==\"PlacementVerified\")].status",description="Configured"
// +kubebuilder:printcolumn:name="ManifestWorks",type="string",JSONPath=".status.conditions[?(@.type==\"ManifestworkApplied\")].reason",description="Reason"
// +kubebuilder:printcolumn:name="Applied",type="string",JSONPath=".status.conditions[?(@.type==\"ManifestworkApplied\")].status",description="Applied"
type ManifestWorkReplicaSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines what is delivered, and to which members.
	Spec ManifestWorkReplicaSetSpec `json:"spec,omitempty"`

	// status sums up the ManifestWorks.
	Status ManifestWorkReplicaSetStatus `json:"status,omitempty"`
}

// ManifestWorkReplicaSetSpec defines what is delivered, and to which members.
type ManifestWorkReplicaSetSpec struct {
	// manifestWorkTemplate is the spec of the ManifestWorks.
	ManifestWorkTemplate workv1.ManifestWorkSpec `json:"manifestWorkTemplate"`

	// placementRefs are the Placements that choose the members. A member that
	// several of them choose belongs to the first and gets one ManifestWork. With more
	// than 64 of them, no ManifestWork is changed.
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinItems=1
	// +required
	PlacementRefs []LocalPlacementReference `json:"placementRefs"`

	// cascadeDeletionPolicy is Background, where a deleted ManifestWorkReplicaSet is
	// gone as soon as its ManifestWorks are marked for deletion, or Foreground, where
	// it stays until they are gone. Default: Background.
	// +kubebuilder:default=Background
	// +kubebuilder:validation:Enum=Background;Foreground
	// +kubebuilder:validation:Required
	// +optional
	CascadeDeletionPolicy CascadeDeletionPolicy `json:"cascadeDeletionPolicy,omitempty"`
}

// CascadeDeletionPolicy reports whether a deleted ManifestWorkReplicaSet waits for
// its ManifestWorks.
type CascadeDeletionPolicy string

const (
	// CascadeDeletionPolicyForeground waits until they are gone.
	CascadeDeletionPolicyForeground CascadeDeletionPolicy = "Foreground"
	// CascadeDeletionPolicyBackground does not wait.
	CascadeDeletionPolicyBackground CascadeDeletionPolicy = "Background"
)

// LocalPlacementReference names a Placement, and says how changes get to the
// members that it chooses.
type LocalPlacementReference struct {
	// name is the name of a Placement in the same namespace.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`

	// rolloutStrategy says how a change of the template is rolled out to the members
	// of this Placement. Default: type All, to all members at once.
	// +optional
	// +kubebuilder:default={type: All, all: {progressDeadline: None}}
	RolloutStrategy clusterv1alpha1.RolloutStrategy `json:"rolloutStrategy"`
}

// ManifestWorkReplicaSetStatus sums up the ManifestWorks.
type ManifestWorkReplicaSetStatus struct {
	// conditions have type PlacementVerified, PlacementRolledOut or
	// ManifestworkApplied.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// summary counts all ManifestWorks.
	Summary ManifestWorkReplicaSetSummary `json:"summary"`

	// placementSummary counts the ManifestWorks of each Placement.
	PlacementsSummary []PlacementSummary `json:"placementSummary"`
}

// PlacementSummary counts the ManifestWorks of a Placement.
type PlacementSummary struct {
	// name is the name of the Placement.
	Name string `json:"name"`

	// availableDecisionGroups is the number of decision groups and, in brackets, how
	// many of the chosen members have the current template.
	AvailableDecisionGroups string `json:"availableDecisionGroups"`

	// summary counts the ManifestWorks of this Placement.
	Summary ManifestWorkReplicaSetSummary `json:"summary"`
}

// ManifestWorkReplicaSetSummary counts ManifestWorks.
type ManifestWorkReplicaSetSummary struct {
	// total is how many ManifestWorks there are.
	Total int `json:"total"`
	// progressing is how many have condition Progressing with status True.
	Progressing int `json:"progressing"`
	// available is how many have condition Available with status True.
	Available int `json:"available"`
	// degraded is how many have condition Degraded with status True.
	Degraded int `json:"degraded"`
	// applied is how many have condition Applied with status True.
	Applied int `json:"applied"`
	// desiredTotal is always 0.
	DesiredTotal int `json:"desiredTotal"`
	// updated is always 0.
	Updated int `json:"updated"`
}

// ManifestWorkReplicaSetList is a list of ManifestWorkReplicaSets.
//
// +kubebuilder:object:root=true
type ManifestWorkReplicaSetList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ManifestWorkReplicaSets.
	Items []ManifestWorkReplicaSet `json:"items"`
}
