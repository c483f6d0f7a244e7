// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PropagationPolicy sends objects of its namespace to clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=pp,categories=karmada-io
// +kubebuilder:printcolumn:name="Conflict-Resolution",type=string,JSONPath=`.spec.conflictResolution`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PropagationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which objects are sent, and to which clusters.
	// +required
	Spec PropagationSpec `json:"spec"`
}

// PropagationPolicyList is a list of PropagationPolicies.
//
// +kubebuilder:object:root=true
type PropagationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the policies.
	Items []PropagationPolicy `json:"items"`
}

// ClusterPropagationPolicy sends objects of all namespaces, and objects without
// one, to clusters. A PropagationPolicy takes precedence over it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=cpp,categories=karmada-io
// +kubebuilder:printcolumn:name="Conflict-Resolution",type=string,JSONPath=`.spec.conflictResolution`
// +kubebuilder:printcolumn:name="Priority",type=integer,JSONPath=`.spec.priority`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterPropagationPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines which objects are sent, and to which clusters.
	// +required
	Spec PropagationSpec `json:"spec"`
}

// ClusterPropagationPolicyList is a list of ClusterPropagationPolicies.
//
// +kubebuilder:object:root=true
type ClusterPropagationPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the policies.
	Items []ClusterPropagationPolicy `json:"items"`
}

// PropagationSpec defines which objects are sent, and to which clusters.
//
// +kubebuilder:validation:XValidation:rule="self.preemption != 'Always' || self.resourceSelectors.all(s, has(s.name) && size(s.name) > 0)",message="preemption Always takes single objects over: set a name in each of resourceSelectors, or preemption to Never"
// +kubebuilder:validation:XValidation:rule="!has(self.failover) || !has(self.failover.application) || has(self.propagateDeps) && self.propagateDeps",message="failover.application moves objects with what they refer to: set propagateDeps to true"
type PropagationSpec struct {
	// resourceSelectors select the objects: those that one of them matches.
	// +required
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	ResourceSelectors []ResourceSelector `json:"resourceSelectors"`

	// association has no effect. Deprecated: use propagateDeps.
	// +optional
	Association bool `json:"association,omitempty"`

	// propagateDeps sends along what the objects refer to, such as the ConfigMaps and
	// Secrets of a Deployment.
	// +optional
	PropagateDeps bool `json:"propagateDeps,omitempty"`

	// placement is which clusters the objects are sent to. Default: all clusters,
	// each with all replicas.
	// +optional
	Placement Placement `json:"placement,omitempty"`

	// priority decides between policies of the same kind that match an object: the
	// greatest wins. Of equal ones the more exact selector wins (by name, by labels,
	// all), then the first name.
	// +kubebuilder:default=0
	// +optional
	Priority *int32 `json:"priority,omitempty"`

	// preemption Always takes objects over from policies of lower priority. It needs
	// feature gate PropagationPolicyPreemption.
	// +kubebuilder:default=Never
	// +kubebuilder:validation:Enum=Always;Never
	// +optional
	Preemption PreemptionBehavior `json:"preemption,omitempty"`

	// dependentOverrides are names of OverridePolicies that have to exist before
	// anything is sent.
	// +optional
	DependentOverrides []string `json:"dependentOverrides,omitempty"`

	// schedulerName is the scheduler that chooses the clusters. It cannot be changed.
	// +kubebuilder:default=default-scheduler
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the scheduler cannot be changed: delete the policy and create another one"
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// failover is what happens to the objects when a cluster or the objects there
	// fail.
	// +optional
	Failover *FailoverBehavior `json:"failover,omitempty"`

	// conflictResolution defines what happens if a cluster has an object of the same name
	// already: Abort leaves it alone, Overwrite takes it over.
	// +kubebuilder:default=Abort
	// +kubebuilder:validation:Enum=Abort;Overwrite
	// +optional
	ConflictResolution ConflictResolution `json:"conflictResolution,omitempty"`

	// activationPreference Lazy applies a change of the policy to an object only when
	// the object itself changes. Default: at once.
	// +kubebuilder:validation:Enum=Lazy
	// +optional
	ActivationPreference ActivationPreference `json:"activationPreference,omitempty"`

	// suspension suspends sending. What is in the clusters stays.
	// +optional
	Suspension *Suspension `json:"suspension,omitempty"`

	// preserveResourcesOnDeletion leaves the objects in the clusters when they are
	// deleted on the hub.
	// +optional
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`

	// schedulePriority is how early clusters are chosen for the objects when many
	// wait.
	// +optional
	SchedulePriority *SchedulePriority `json:"schedulePriority,omitempty"`
}

// ResourceSelector selects objects of a kind.
type ResourceSelector struct {
	// apiVersion is the API version of the objects, such as apps/v1.
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the objects.
	// +required
	Kind string `json:"kind"`

	// namespace is the namespace of the objects. Default: that of the policy, and for
	// policies without one all namespaces.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object. Default: all that labelSelector selects.
	// +optional
	Name string `json:"name,omitempty"`

	// labelSelector selects objects by their labels. It is ignored if name is set.
	// Default: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// PreemptionBehavior is whether a policy takes objects over from others.
type PreemptionBehavior string

const (
	// PreemptAlways takes objects over from policies of lower priority.
	PreemptAlways PreemptionBehavior = "Always"
	// PreemptNever leaves objects to the policy that claimed them first.
	PreemptNever PreemptionBehavior = "Never"
)

// ConflictResolution is what happens to objects that a cluster has already.
type ConflictResolution string

const (
	// ConflictAbort leaves such an object alone.
	ConflictAbort ConflictResolution = "Abort"
	// ConflictOverwrite takes such an object over.
	ConflictOverwrite ConflictResolution = "Overwrite"
)

// ActivationPreference is when a change of a policy is applied.
type ActivationPreference string

// LazyActivation applies a change of the policy when the object changes.
const LazyActivation ActivationPreference = "Lazy"

// Suspension suspends sending, to all clusters or to some.
//
// +kubebuilder:validation:XValidation:rule="!has(self.dispatching) || !self.dispatching || !has(self.dispatchingOnClusters)",message="dispatching suspends all clusters already: remove it or dispatchingOnClusters"
type Suspension struct {
	// dispatching suspends sending to all clusters. It excludes
	// dispatchingOnClusters.
	// +optional
	Dispatching *bool `json:"dispatching,omitempty"`

	// dispatchingOnClusters suspends sending to some clusters.
	// +optional
	DispatchingOnClusters *SuspendClusters `json:"dispatchingOnClusters,omitempty"`
}

// SuspendClusters are clusters that nothing is sent to.
type SuspendClusters struct {
	// clusterNames are the names of the clusters.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	ClusterNames []string `json:"clusterNames,omitempty"`
}

// PriorityClassSource is where a priority comes from.
type PriorityClassSource string

// KubePriorityClass takes the value of a PriorityClass of the hub.
const KubePriorityClass PriorityClassSource = "KubePriorityClass"

// SchedulePriority is how early clusters are chosen.
type SchedulePriority struct {
	// priorityClassSource is where the priority comes from: KubePriorityClass, a
	// PriorityClass of the hub.
	// +required
	// +kubebuilder:validation:Enum=KubePriorityClass
	PriorityClassSource PriorityClassSource `json:"priorityClassSource"`

	// priorityClassName is the name of the PriorityClass, which has to exist.
	// +required
	PriorityClassName string `json:"priorityClassName"`
}
