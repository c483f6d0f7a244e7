// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PlacementDecision lists members that a Placement has chosen, 100 at most. All
// decisions of a Placement together are its choice; they have the label
// cluster.open-cluster-management.io/placement.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:storageversion
type PlacementDecision struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status lists the members.
	// +optional
	Status PlacementDecisionStatus `json:"status,omitempty"`
}

// PlacementDecisionStatus lists members.
type PlacementDecisionStatus struct {
	// decisions are the members that were chosen, 100 at most, in the order of their
	// names or, if sortBy of the Placement is Score, of their scores.
	// +required
	// +kubebuilder:validation:Required
	Decisions []ClusterDecision `json:"decisions"`
}

// ClusterDecision is a member that was chosen.
type ClusterDecision struct {
	// clusterName is the name of the ManagedCluster.
	// +required
	// +kubebuilder:validation:Required
	ClusterName string `json:"clusterName"`

	// reason is empty. "capstan explain placement" shows why the member was chosen.
	// +required
	// +kubebuilder:validation:Required
	Reason string `json:"reason"`

	// score is the member's score, if sortBy of the Placement is Score.
	// +optional
	Score *int64 `json:"score,omitempty"`
}

// PlacementDecisionList is a list of PlacementDecisions.
//
// +kubebuilder:object:root=true
type PlacementDecisionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the PlacementDecisions.
	Items []PlacementDecision `json:"items"`
}
