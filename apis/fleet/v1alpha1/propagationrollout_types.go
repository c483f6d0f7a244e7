// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PropagationRollout rolls out changes of what a PropagationPolicy sends, or of one
// object, to the clusters group by group: each group gets a change when the
// groups before it have it and are healthy. Without a rollout, all clusters get a
// change at once.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=pro
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters.total`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.clusters.updated`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.clusters.healthy`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.clusters.failed`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,priority=1
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.undo) || has(oldSelf.spec.undo) && self.spec.undo == oldSelf.spec.undo || has(oldSelf.status) && has(oldSelf.status.revision) && self.spec.undo <= oldSelf.status.revision",message="spec.undo is at most status.revision: what has not begun cannot be undone"
type PropagationRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines what is rolled out, and how.
	// +required
	Spec PropagationRolloutSpec `json:"spec"`

	// status reports the progress of the rollout.
	// +optional
	Status PropagationRolloutStatus `json:"status,omitempty"`
}

// ClusterPropagationRollout is a PropagationRollout of a ClusterPropagationPolicy,
// or of an object without a namespace.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=cpro
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.status.stage`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters.total`
// +kubebuilder:printcolumn:name="Updated",type=integer,JSONPath=`.status.clusters.updated`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.clusters.healthy`
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.clusters.failed`
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,priority=1
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!has(self.spec.undo) || has(oldSelf.spec.undo) && self.spec.undo == oldSelf.spec.undo || has(oldSelf.status) && has(oldSelf.status.revision) && self.spec.undo <= oldSelf.status.revision",message="spec.undo is at most status.revision: what has not begun cannot be undone"
type ClusterPropagationRollout struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines what is rolled out, and how.
	// +required
	Spec PropagationRolloutSpec `json:"spec"`

	// status reports the progress of the rollout.
	// +optional
	Status PropagationRolloutStatus `json:"status,omitempty"`
}

// Rollout is a PropagationRollout or a ClusterPropagationRollout.
//
// +kubebuilder:object:generate=false
type Rollout interface {
	metav1.Object
	// RolloutSpec and RolloutStatus return what can be changed.
	RolloutSpec() *PropagationRolloutSpec
	RolloutStatus() *PropagationRolloutStatus
}

// RolloutSpec implements Rollout.
func (r *PropagationRollout) RolloutSpec() *PropagationRolloutSpec { return &r.Spec }

// RolloutStatus implements Rollout.
func (r *PropagationRollout) RolloutStatus() *PropagationRolloutStatus { return &r.Status }

// RolloutSpec implements Rollout.
func (r *ClusterPropagationRollout) RolloutSpec() *PropagationRolloutSpec { return &r.Spec }

// RolloutStatus implements Rollout.
func (r *ClusterPropagationRollout) RolloutStatus() *PropagationRolloutStatus { return &r.Status }

// PropagationRolloutSpec defines what is rolled out, and how.
//
// +kubebuilder:validation:XValidation:rule="has(self.policy) != has(self.template)",message="name one of policy and template: what is rolled out"
type PropagationRolloutSpec struct {
	// policy is the policy whose objects are rolled out, all together: a
	// PropagationPolicy of the namespace, or a ClusterPropagationPolicy.
	// +optional
	Policy *RolloutPolicy `json:"policy,omitempty"`

	// template is the one object that is rolled out, whichever policy sends it. A
	// rollout of an object goes before one of its policy.
	// +optional
	Template *RolloutTemplate `json:"template,omitempty"`

	// groups are the clusters that get a change first, group by group. A cluster
	// counts in the first group that has it. Clusters that none of them has are the
	// last group.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Groups []RolloutGroup `json:"groups,omitempty"`

	// maxConcurrency is the number of clusters of a group that are changed at a time, as a
	// number or as a percentage of the group, rounded up. Default: all of them.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",message="maxConcurrency is a number from 1, or a percentage from 1% to 100%"
	MaxConcurrency *intstr.IntOrString `json:"maxConcurrency,omitempty"`

	// maxFailures is the number of clusters that may fail, as a number or as a percentage of all
	// clusters, rounded down. If more do, no other cluster is changed. Default: 0.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^(100|[1-9]?[0-9])%$')",message="maxFailures is a number from 0, or a percentage from 0% to 100%"
	MaxFailures *intstr.IntOrString `json:"maxFailures,omitempty"`

	// minSuccessTime is how long a cluster has to be healthy with a change before it
	// counts, such as 5m. Default: 0s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	MinSuccessTime string `json:"minSuccessTime,omitempty"`

	// progressDeadline is how long a cluster may take to become healthy with a change,
	// such as 10m. One that takes longer has failed. 0s is no limit: a cluster that
	// cannot be changed has failed at once then, and one that does not become healthy
	// is waited for.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	ProgressDeadline string `json:"progressDeadline,omitempty"`

	// paused keeps other clusters from getting a change. Clusters that have it keep it.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// undo is the number of a revision, as status.revision has it: revisions up to this
	// one that have not reached all clusters are taken back, and these clusters get
	// what all clusters had last. A later change begins a new revision. Removing the
	// field rolls it out again.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Undo *int64 `json:"undo,omitempty"`
}

// RolloutPolicy names a policy.
type RolloutPolicy struct {
	// name is the name of the policy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RolloutTemplate names an object of the hub: one of the namespace, or one without
// a namespace.
type RolloutTemplate struct {
	// apiVersion is the group and version of its kind, such as apps/v1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`

	// kind is its kind, such as Deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name is its name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RolloutGroup are clusters that are changed next to each other: those that it
// names, and those that its selectors select.
//
// +kubebuilder:validation:XValidation:rule="has(self.clusterNames) || has(self.labelSelector) || has(self.claimSelector)",message="say which clusters the group has: by clusterNames, labelSelector or claimSelector"
type RolloutGroup struct {
	// name is how the status calls the group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// clusterNames are clusters of the group.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=63
	ClusterNames []string `json:"clusterNames,omitempty"`

	// labelSelector selects clusters of the group by their labels.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// claimSelector selects clusters of the group by their claims.
	// +optional
	ClaimSelector *metav1.LabelSelector `json:"claimSelector,omitempty"`
}

// PropagationRolloutStatus reports the progress of a rollout.
type PropagationRolloutStatus struct {
	// observedGeneration is the generation that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions report whether the rollout is in effect, whether it progresses, and whether
	// all clusters have what they should have; see
	// docs/spec/fleet/propagationrollout.md.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// revision is the number of the latest change.
	// +optional
	Revision int64 `json:"revision,omitempty"`

	// objects is the number of objects that are rolled out.
	// +optional
	Objects int32 `json:"objects,omitempty"`

	// stage is the position of the current group among those with clusters, such as
	// 2/3. It is the last one if all have had their turn.
	// +optional
	Stage string `json:"stage,omitempty"`

	// group is the name of that group; it is empty for the clusters in no group.
	// +optional
	Group string `json:"group,omitempty"`

	// clusters counts the clusters.
	// +optional
	Clusters RolloutClusters `json:"clusters,omitempty"`
}

// RolloutClusters counts clusters. Each is among the pending or among the updated
// ones; of the latter each is healthy, progressing or failed.
type RolloutClusters struct {
	// total is the number of clusters that the objects are sent to.
	Total int32 `json:"total"`

	// pending is the number of clusters without the latest change of all objects.
	Pending int32 `json:"pending"`

	// updated is the number of clusters that have it.
	Updated int32 `json:"updated"`

	// healthy is the number of updated clusters that are healthy.
	Healthy int32 `json:"healthy"`

	// progressing is the number of updated clusters that are not healthy and have time left.
	Progressing int32 `json:"progressing"`

	// failed is the number of updated clusters that have failed.
	Failed int32 `json:"failed"`
}

// PropagationRolloutList is a list of PropagationRollouts.
//
// +kubebuilder:object:root=true
type PropagationRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the rollouts.
	Items []PropagationRollout `json:"items"`
}

// ClusterPropagationRolloutList is a list of ClusterPropagationRollouts.
//
// +kubebuilder:object:root=true
type ClusterPropagationRolloutList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the rollouts.
	Items []ClusterPropagationRollout `json:"items"`
}
