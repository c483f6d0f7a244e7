// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedClusterSetBinding lets its namespace use a ManagedClusterSet: only
// members of bound sets can be selected there. It must have the name of the
// set. Creating one requires the permission to create managedclustersets/bind
// for that set.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName={mclsetbinding,mclsetbindings}
// +kubebuilder:storageversion
type ManagedClusterSetBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec names the set.
	Spec ManagedClusterSetBindingSpec `json:"spec"`

	// status reports whether the set exists.
	// +optional
	Status ManagedClusterSetBindingStatus `json:"status,omitempty"`
}

// ManagedClusterSetBindingSpec names the set that is bound.
type ManagedClusterSetBindingSpec struct {
	// clusterSet is the name of the ManagedClusterSet, of at least one character.
	// It must match the name of this object.
	// +kubebuilder:validation:MinLength=1
	ClusterSet string `json:"clusterSet"`
}

// ManagedClusterSetBindingStatus reports whether the bound set exists.
type ManagedClusterSetBindingStatus struct {
	// conditions have type Bound.
	Conditions []metav1.Condition `json:"conditions"`
}

// ManagedClusterSetBindingList is a list of ManagedClusterSetBindings.
//
// +kubebuilder:object:root=true
type ManagedClusterSetBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ManagedClusterSetBindings.
	Items []ManagedClusterSetBinding `json:"items"`
}
