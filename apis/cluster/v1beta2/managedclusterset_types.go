// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// ManagedClusterSet is a group of members. Two sets exist from the start:
// "default" has the members that are in no other set, "global" has all.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={mclset,mclsets}
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Empty",type=string,JSONPath=`.status.conditions[?(@.type=="ClusterSetEmpty")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedClusterSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec tells which members the set has. Default: those with the label
	// cluster.open-cluster-management.io/clusterset=<name of the set>.
	// +kubebuilder:default={clusterSelector: {selectorType: ExclusiveClusterSetLabel}}
	Spec ManagedClusterSetSpec `json:"spec"`

	// status tells whether the set has members.
	// +optional
	Status ManagedClusterSetStatus `json:"status,omitempty"`
}

// ManagedClusterSetSpec tells which members a set has.
type ManagedClusterSetSpec struct {
	// clusterSelector chooses the members. Default: by the cluster set label.
	// +optional
	// +kubebuilder:default:={selectorType: ExclusiveClusterSetLabel}
	ClusterSelector ManagedClusterSelector `json:"clusterSelector,omitempty"`

	// managedNamespaces are namespaces that the agent makes on each member of the
	// set. A namespace is not deleted when it is taken out of this list; its label
	// clusterset.open-cluster-management.io/<hub hash> becomes "false" then.
	// Default: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	ManagedNamespaces []clusterv1.ManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ManagedClusterSelector chooses members.
type ManagedClusterSelector struct {
	// selectorType tells how members are chosen: ExclusiveClusterSetLabel by the
	// label cluster.open-cluster-management.io/clusterset, so that a member is in
	// one such set only; LabelSelector by labelSelector, whatever other sets the
	// member is in. Default: ExclusiveClusterSetLabel.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=ExclusiveClusterSetLabel;LabelSelector
	// +kubebuilder:default:=ExclusiveClusterSetLabel
	SelectorType SelectorType `json:"selectorType,omitempty"`

	// labelSelector is compared with the labels of ManagedClusters. It counts with
	// selectorType LabelSelector only. An empty one ({}) matches all members, none
	// at all matches no member.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// SelectorType tells how the members of a set are chosen.
type SelectorType string

const (
	// SelectorTypeExclusiveClusterSetLabel chooses by the cluster set label.
	SelectorTypeExclusiveClusterSetLabel SelectorType = "ExclusiveClusterSetLabel"
	// SelectorTypeLabelSelector chooses by any labels.
	SelectorTypeLabelSelector SelectorType = "LabelSelector"
)

// ManagedClusterSetStatus tells whether a set has members.
type ManagedClusterSetStatus struct {
	// conditions have type ClusterSetEmpty.
	Conditions []metav1.Condition `json:"conditions"`
}

// ManagedClusterSetList is a list of ManagedClusterSets.
//
// +kubebuilder:object:root=true
type ManagedClusterSetList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ManagedClusterSets.
	Items []ManagedClusterSet `json:"items"`
}
