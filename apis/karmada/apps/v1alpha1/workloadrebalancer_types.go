// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WorkloadRebalancer reschedules objects, once: what is
// divided among clusters stays where it is otherwise.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadRebalancer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the objects to reschedule.
	// +required
	Spec WorkloadRebalancerSpec `json:"spec"`

	// status reports the outcome.
	// +optional
	Status WorkloadRebalancerStatus `json:"status,omitempty"`
}

// WorkloadRebalancerList is a list of WorkloadRebalancers.
//
// +kubebuilder:object:root=true
type WorkloadRebalancerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the rebalancers.
	Items []WorkloadRebalancer `json:"items"`
}

// WorkloadRebalancerSpec lists the objects to reschedule.
type WorkloadRebalancerSpec struct {
	// workloads lists the objects. Those that are added later follow.
	// +required
	// +kubebuilder:validation:MinItems=1
	Workloads []ObjectReference `json:"workloads"`

	// ttlSecondsAfterFinished is how long after it has finished it is deleted: 0 is at
	// once. Default: never.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished,omitempty"`
}

// ObjectReference names an object of the hub.
type ObjectReference struct {
	// apiVersion is the API group and version of the object, such as apps/v1. The
	// version does not matter.
	// +required
	// +kubebuilder:validation:Pattern=`^([a-z0-9.-]+/)?[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`

	// namespace is its namespace. Default: it has none.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// WorkloadRebalancerStatus reports the outcome of a WorkloadRebalancer.
type WorkloadRebalancerStatus struct {
	// observedWorkloads are the objects of spec.workloads, each once, and what became of
	// them, sorted by apiVersion, kind, namespace and name. Of what was taken out of
	// spec.workloads, those that were Successful stay, up to 1000.
	// +optional
	ObservedWorkloads []ObservedWorkload `json:"observedWorkloads,omitempty"`

	// observedGeneration is the generation that all of this is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// finishTime is when the last of them was asked for. The clusters are chosen after
	// that: status.lastScheduledTime of each binding says when.
	// +optional
	FinishTime *metav1.Time `json:"finishTime,omitempty"`
}

// ObservedWorkload is the outcome for one object.
type ObservedWorkload struct {
	// workload is the object.
	// +required
	Workload ObjectReference `json:"workload"`

	// result is Successful if rescheduling was requested in its binding,
	// or Failed.
	// +optional
	// +kubebuilder:validation:Enum=Successful;Failed
	Result RebalanceResult `json:"result,omitempty"`

	// reason is why it has failed: ReferencedBindingNotFound if no policy sends it to
	// clusters.
	// +optional
	// +kubebuilder:validation:Enum=ReferencedBindingNotFound
	Reason RebalanceFailedReason `json:"reason,omitempty"`
}

// RebalanceResult is the outcome for one object.
type RebalanceResult string

// RebalanceFailedReason is why it has failed.
type RebalanceFailedReason string

// The results, and the reason of failures.
const (
	RebalanceSuccessful       RebalanceResult       = "Successful"
	RebalanceFailed           RebalanceResult       = "Failed"
	ReferencedBindingNotFound RebalanceFailedReason = "ReferencedBindingNotFound"
)
