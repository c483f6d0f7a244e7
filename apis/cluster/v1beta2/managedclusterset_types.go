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

	// spec selects the members of the set. Default: those with the label
	// cluster.open-cluster-management.io/clusterset=<name of the set>.
	// +kubebuilder:default={clusterSelector: {selectorType: ExclusiveClusterSetLabel}}
	Spec ManagedClusterSetSpec `json:"spec"`

	// status reports whether the set has members.
	// +optional
	Status ManagedClusterSetStatus `json:"status,omitempty"`
}

// ManagedClusterSetSpec selects the members of a set.
type ManagedClusterSetSpec struct {
	// clusterSelector selects the members. Default: by the cluster set label.
	// +optional
	// +kubebuilder:default:={selectorType: ExclusiveClusterSetLabel}
	ClusterSelector ManagedClusterSelector `json:"clusterSelector,omitempty"`

	// managedNamespaces are namespaces that the agent creates on each member of
	// the set. A namespace is not deleted when it is removed from this list; its
	// label clusterset.open-cluster-management.io/<hub hash> is set to "false"
	// instead. Default: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	ManagedNamespaces []clusterv1.ManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ManagedClusterSelector selects members.
type ManagedClusterSelector struct {
	// selectorType is how members are selected: ExclusiveClusterSetLabel by the
	// label cluster.open-cluster-management.io/clusterset, so that a member is in
	// only one such set; LabelSelector by labelSelector, regardless of other sets.
	// Default: ExclusiveClusterSetLabel.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=ExclusiveClusterSetLabel;LabelSelector
	// +kubebuilder:default:=ExclusiveClusterSetLabel
	SelectorType SelectorType `json:"selectorType,omitempty"`

	// labelSelector matches labels of ManagedClusters; used with selectorType
	// LabelSelector only. An empty selector ({}) matches all members; if unset, it
	// matches none.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// SelectorType is how the members of a set are selected.
type SelectorType string

const (
	// SelectorTypeExclusiveClusterSetLabel selects by the cluster set label.
	SelectorTypeExclusiveClusterSetLabel SelectorType = "ExclusiveClusterSetLabel"
	// SelectorTypeLabelSelector selects by any labels.
	SelectorTypeLabelSelector SelectorType = "LabelSelector"
)

// ManagedClusterSetStatus reports whether a set has members.
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
