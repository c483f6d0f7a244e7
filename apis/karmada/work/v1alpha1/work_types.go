// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Work is what a binding delivers to a cluster. It is in the namespace
// karmada-es-<cluster>.
//
// +kubebuilder:object:root=true
type Work struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists what to deliver.
	Spec WorkSpec `json:"spec"`

	// status reports the outcome.
	// +optional
	Status WorkStatus `json:"status,omitempty"`
}

// WorkSpec lists what to deliver.
type WorkSpec struct {
	// workload has the objects.
	// +optional
	Workload WorkloadTemplate `json:"workload,omitempty"`

	// suspendDispatching keeps changes of the objects from the cluster. What is there
	// stays.
	// +optional
	SuspendDispatching *bool `json:"suspendDispatching,omitempty"`

	// preserveResourcesOnDeletion leaves the objects on the cluster when the Work is
	// deleted.
	// +optional
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`
}

// WorkloadTemplate has objects.
type WorkloadTemplate struct {
	// manifests are the objects.
	// +optional
	// +listType=atomic
	Manifests []runtime.RawExtension `json:"manifests,omitempty"`
}

// WorkStatus reports the state of a Work.
type WorkStatus struct {
	// conditions report whether the objects are on the cluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// manifestStatuses are the states of the objects.
	// +optional
	// +listType=atomic
	ManifestStatuses []ManifestStatus `json:"manifestStatuses,omitempty"`
}

// ManifestStatus is the state of an object.
type ManifestStatus struct {
	// identifier names the object.
	// +required
	Identifier ResourceIdentifier `json:"identifier"`

	// status is the status of the object on the cluster.
	// +optional
	Status *runtime.RawExtension `json:"status,omitempty"`

	// health is whether the object works: Healthy, Unhealthy or Unknown.
	// +optional
	Health ResourceHealth `json:"health,omitempty"`
}

// ResourceIdentifier names an object.
type ResourceIdentifier struct {
	// ordinal is the place of the object in spec.workload.manifests, from 0.
	// +required
	Ordinal int `json:"ordinal"`

	// group is the API group; empty is the core group.
	// +optional
	Group string `json:"group,omitempty"`

	// version is the API version.
	// +required
	Version string `json:"version"`

	// kind is the kind of the object.
	// +required
	Kind string `json:"kind"`

	// resource is the plural name of the kind, such as deployments.
	// +required
	Resource string `json:"resource"`

	// namespace is the namespace of the object; empty for objects without one.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +required
	Name string `json:"name"`
}

// WorkList is a list of Works.
//
// +kubebuilder:object:root=true
type WorkList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Works.
	Items []Work `json:"items"`
}
