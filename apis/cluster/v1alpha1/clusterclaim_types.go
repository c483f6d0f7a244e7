// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterClaim is a property that a member declares about itself. It is created
// on the member, and the agent copies its name and value to
// status.clusterClaims of the ManagedCluster, unless it has the label
// open-cluster-management.io/spoke-only. Names like id.k8s.io have a fixed
// meaning; see ReservedNames.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
type ClusterClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the value.
	Spec ClusterClaimSpec `json:"spec,omitempty"`
}

// ClusterClaimSpec contains the value of a claim.
type ClusterClaimSpec struct {
	// value is the value of the claim, of 1 to 1024 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ClusterClaimList is a list of ClusterClaims.
//
// +kubebuilder:object:root=true
type ClusterClaimList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ClusterClaims.
	Items []ClusterClaim `json:"items"`
}
