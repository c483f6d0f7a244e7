// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// ResourceBinding records which clusters an object of its namespace is sent to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=rb,categories=karmada-io
// +kubebuilder:printcolumn:name="Scheduled",type=string,JSONPath=`.status.conditions[?(@.type=="Scheduled")].status`
// +kubebuilder:printcolumn:name="FullyApplied",type=string,JSONPath=`.status.conditions[?(@.type=="FullyApplied")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ResourceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the object, and the clusters that were chosen.
	// +required
	Spec ResourceBindingSpec `json:"spec"`

	// status reports the outcome.
	// +optional
	Status ResourceBindingStatus `json:"status,omitempty"`
}

// ResourceBindingList is a list of ResourceBindings.
//
// +kubebuilder:object:root=true
type ResourceBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the bindings.
	Items []ResourceBinding `json:"items"`
}

// ClusterResourceBinding is which clusters an object without a namespace is sent
// to.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=crb,categories=karmada-io
// +kubebuilder:printcolumn:name="Scheduled",type=string,JSONPath=`.status.conditions[?(@.type=="Scheduled")].status`
// +kubebuilder:printcolumn:name="FullyApplied",type=string,JSONPath=`.status.conditions[?(@.type=="FullyApplied")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterResourceBinding struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec describes the object, and the clusters that were chosen.
	// +required
	Spec ResourceBindingSpec `json:"spec"`

	// status reports the outcome.
	// +optional
	Status ResourceBindingStatus `json:"status,omitempty"`
}

// ClusterResourceBindingList is a list of ClusterResourceBindings.
//
// +kubebuilder:object:root=true
type ClusterResourceBindingList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the bindings.
	Items []ClusterResourceBinding `json:"items"`
}

// ResourceBindingSpec is an object, and the clusters that it is sent to.
type ResourceBindingSpec struct {
	// resource is the object.
	// +required
	Resource ObjectReference `json:"resource"`

	// propagateDeps sends along what the object refers to.
	// +optional
	PropagateDeps bool `json:"propagateDeps,omitempty"`

	// replicaRequirements describe what each replica needs.
	// +optional
	ReplicaRequirements *ReplicaRequirements `json:"replicaRequirements,omitempty"`

	// replicas is the number of replicas that the object asks for.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// components are the parts of an object that has several pod templates. It needs
	// feature gate MultiplePodTemplatesScheduling.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Components []Component `json:"components,omitempty"`

	// clusters lists the clusters that were chosen, and the replicas of each.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	Clusters []TargetCluster `json:"clusters,omitempty"`

	// placement defines how the clusters are chosen.
	// +optional
	Placement *policyv1alpha1.Placement `json:"placement,omitempty"`

	// gracefulEvictionTasks are clusters that the object is being moved away from.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	GracefulEvictionTasks []GracefulEvictionTask `json:"gracefulEvictionTasks,omitempty"`

	// requiredBy are bindings whose objects refer to this one, and their clusters.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	RequiredBy []BindingSnapshot `json:"requiredBy,omitempty"`

	// schedulerName is the scheduler that chooses the clusters.
	// +kubebuilder:default=default-scheduler
	// +optional
	SchedulerName string `json:"schedulerName,omitempty"`

	// failover defines what happens when a cluster or the object there fails.
	// +optional
	Failover *policyv1alpha1.FailoverBehavior `json:"failover,omitempty"`

	// conflictResolution defines what happens if a cluster has an object of the same name
	// already.
	// +kubebuilder:default=Abort
	// +kubebuilder:validation:Enum=Abort;Overwrite
	// +optional
	ConflictResolution policyv1alpha1.ConflictResolution `json:"conflictResolution,omitempty"`

	// rescheduleTriggeredAt is when a new choice of clusters was last requested.
	// +optional
	RescheduleTriggeredAt *metav1.Time `json:"rescheduleTriggeredAt,omitempty"`

	// suspension suspends sending, or choosing clusters.
	// +optional
	Suspension *Suspension `json:"suspension,omitempty"`

	// preserveResourcesOnDeletion leaves the object in the clusters when it is deleted
	// on the hub.
	// +optional
	PreserveResourcesOnDeletion *bool `json:"preserveResourcesOnDeletion,omitempty"`

	// schedulePriority is how early clusters are chosen when many bindings wait.
	// +optional
	SchedulePriority *SchedulePriority `json:"schedulePriority,omitempty"`

	// workloadAffinityGroups are the groups of workloads to keep together and apart.
	// +optional
	WorkloadAffinityGroups *WorkloadAffinityGroups `json:"workloadAffinityGroups,omitempty"`
}

// ObjectReference names an object of the hub.
type ObjectReference struct {
	// apiVersion is the API version of the object.
	// +required
	APIVersion string `json:"apiVersion"`

	// kind is the kind of the object.
	// +required
	Kind string `json:"kind"`

	// namespace is the namespace of the object; empty for objects without one.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the object.
	// +required
	Name string `json:"name"`

	// uid is the UID of the object.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// resourceVersion is that of the object when it was last read.
	// +optional
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// ReplicaRequirements are what a replica needs.
type ReplicaRequirements struct {
	// nodeClaim describes the nodes that a replica can run on.
	// +optional
	NodeClaim *NodeClaim `json:"nodeClaim,omitempty"`

	// resourceRequest lists the resources that a replica requests.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	ResourceRequest corev1.ResourceList `json:"resourceRequest,omitempty"`

	// namespace is the namespace of the replicas.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// priorityClassName is the priority class of the replicas.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// NodeClaim describes the nodes that a replica can run on.
type NodeClaim struct {
	// hardNodeAffinity lists requirements that its node has to meet.
	// +optional
	HardNodeAffinity *corev1.NodeSelector `json:"hardNodeAffinity,omitempty"`

	// nodeSelector are the labels that its node has to have.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations tolerate taints of its node.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// Component is a part of an object with pods of its own.
type Component struct {
	// name is the name of the part, unique in the object.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Name string `json:"name"`

	// replicas is the number of replicas that the part asks for.
	// +required
	Replicas int32 `json:"replicas"`

	// replicaRequirements describe what each replica of the part needs.
	// +optional
	ReplicaRequirements *ComponentReplicaRequirements `json:"replicaRequirements,omitempty"`
}

// ComponentReplicaRequirements are what a replica of a part needs.
type ComponentReplicaRequirements struct {
	// nodeClaim describes the nodes that a replica can run on.
	// +optional
	NodeClaim *NodeClaim `json:"nodeClaim,omitempty"`

	// resourceRequest lists the resources that a replica requests.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	ResourceRequest corev1.ResourceList `json:"resourceRequest,omitempty"`

	// priorityClassName is the priority class of the replicas.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// TargetCluster is a cluster that was chosen.
type TargetCluster struct {
	// name is the name of the cluster.
	// +required
	Name string `json:"name"`

	// replicas is the number of replicas that it gets.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// components lists the replicas that it gets of each part.
	// +kubebuilder:validation:MaxItems=256
	// +optional
	Components []TargetComponent `json:"components,omitempty"`
}

// TargetComponent is a part of an object in a cluster.
type TargetComponent struct {
	// name is the name of the part.
	// +required
	Name string `json:"name"`

	// replicas is how many replicas of it the cluster gets.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
}

// GracefulEvictionTask is a cluster that an object is being moved away from.
//
// +kubebuilder:validation:XValidation:rule="!has(self.gracePeriodSeconds) || !has(self.suppressDeletion)",message="gracePeriodSeconds and suppressDeletion exclude each other: remove one of them"
type GracefulEvictionTask struct {
	// fromCluster is the name of the cluster.
	// +required
	FromCluster string `json:"fromCluster"`

	// purgeMode is how the object is removed from the cluster.
	// +optional
	PurgeMode policyv1alpha1.PurgeMode `json:"purgeMode,omitempty"`

	// replicas is how many replicas the cluster had.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// reason says why, in one word.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	Reason string `json:"reason"`

	// message says why, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// producer names who asked for it.
	// +required
	Producer string `json:"producer"`

	// gracePeriodSeconds is for how many seconds the object stays at most.
	// +optional
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`

	// suppressDeletion true keeps the object until the user decides, false removes it
	// at once. It excludes gracePeriodSeconds.
	// +optional
	SuppressDeletion *bool `json:"suppressDeletion,omitempty"`

	// preservedLabelState are labels that the object gets in the next cluster.
	// +optional
	PreservedLabelState map[string]string `json:"preservedLabelState,omitempty"`

	// creationTimestamp is when the task was created. The hub sets it.
	// +optional
	CreationTimestamp *metav1.Time `json:"creationTimestamp,omitempty"`

	// clustersBeforeFailover are the clusters of the binding before.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	ClustersBeforeFailover []string `json:"clustersBeforeFailover,omitempty"`
}

// BindingSnapshot is a binding whose object refers to the one of this binding.
type BindingSnapshot struct {
	// namespace is the namespace of the other binding; empty for bindings without
	// one.
	// +optional
	Namespace string `json:"namespace,omitempty"`

	// name is the name of the other binding.
	// +required
	Name string `json:"name"`

	// clusters lists those of the other binding.
	// +optional
	// +kubebuilder:validation:MaxItems=10000
	Clusters []TargetCluster `json:"clusters,omitempty"`
}

// Suspension suspends sending, or choosing clusters.
type Suspension struct {
	policyv1alpha1.Suspension `json:",inline"`

	// scheduling suspends choosing clusters. Policies do not set it.
	// +optional
	Scheduling *bool `json:"scheduling,omitempty"`
}

// SchedulePriority is how early clusters are chosen.
type SchedulePriority struct {
	// priority is the value; the greatest comes first.
	// +optional
	Priority int32 `json:"priority,omitempty"`
}

// WorkloadAffinityGroups are groups of workloads, each as key=value.
type WorkloadAffinityGroups struct {
	// affinityGroup is the group to keep together.
	// +optional
	AffinityGroup string `json:"affinityGroup,omitempty"`

	// antiAffinityGroup is the group to keep apart.
	// +optional
	AntiAffinityGroup string `json:"antiAffinityGroup,omitempty"`
}

// ResourceBindingStatus reports the outcome of a binding.
type ResourceBindingStatus struct {
	// schedulerObservedGeneration is the generation that clusters were chosen for.
	// +optional
	SchedulerObservedGeneration int64 `json:"schedulerObservedGeneration,omitempty"`

	// schedulerObservingAffinityName is the name of the group of
	// placement.clusterAffinities that the clusters are from.
	// +optional
	SchedulerObservedAffinityName string `json:"schedulerObservingAffinityName,omitempty"`

	// lastScheduledTime is when clusters were last chosen.
	// +optional
	LastScheduledTime *metav1.Time `json:"lastScheduledTime,omitempty"`

	// conditions report whether clusters were chosen, and have the object.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// aggregatedStatus reports the state of the object in each cluster.
	// +optional
	AggregatedStatus []AggregatedStatusItem `json:"aggregatedStatus,omitempty"`
}

// ResourceHealth reports whether an object works.
type ResourceHealth string

const (
	// ResourceHealthy says that it works.
	ResourceHealthy ResourceHealth = "Healthy"
	// ResourceUnhealthy says that it does not work.
	ResourceUnhealthy ResourceHealth = "Unhealthy"
	// ResourceUnknown says that this is not known.
	ResourceUnknown ResourceHealth = "Unknown"
)

// AggregatedStatusItem reports the state of an object in a cluster.
type AggregatedStatusItem struct {
	// clusterName is the name of the cluster.
	// +required
	ClusterName string `json:"clusterName"`

	// status is the status of the object there.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Status *runtime.RawExtension `json:"status,omitempty"`

	// applied reports whether the object is in the cluster as desired.
	// +optional
	Applied bool `json:"applied,omitempty"`

	// appliedMessage says why it is not, or what else there is to know.
	// +optional
	AppliedMessage string `json:"appliedMessage,omitempty"`

	// health is whether it works: Healthy, Unhealthy or Unknown.
	// +optional
	// +kubebuilder:validation:Enum=Healthy;Unhealthy;Unknown
	Health ResourceHealth `json:"health,omitempty"`
}
