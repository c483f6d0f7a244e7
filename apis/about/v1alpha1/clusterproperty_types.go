// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterProperty is a property that a cluster declares about itself, for any
// multi-cluster tool. With feature gate ClusterProperty the agent copies its
// name and value to status.clusterClaims of the ManagedCluster, as it does with
// a ClusterClaim; a property takes precedence over a claim of the same name.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:metadata:annotations="api-approved.kubernetes.io=https://github.com/kubernetes/enhancements/issues/2149"
// +kubebuilder:printcolumn:name="value",type=string,JSONPath=`.spec.value`
// +kubebuilder:printcolumn:name="age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterProperty struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the value.
	// +required
	Spec ClusterPropertySpec `json:"spec"`
}

// ClusterPropertySpec contains the value of a property.
type ClusterPropertySpec struct {
	// value is the value of the property. Values longer than 1024 characters are
	// not reported to the hub.
	// +required
	// +kubebuilder:validation:MinLength=1
	Value string `json:"value"`
}

// ClusterPropertyList is a list of ClusterProperties.
//
// +kubebuilder:object:root=true
type ClusterPropertyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ClusterProperties.
	Items []ClusterProperty `json:"items"`
}
