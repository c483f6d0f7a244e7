// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Placement is which clusters are chosen, and how replicas are divided among
// them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.clusterAffinity) || !has(self.clusterAffinities) || size(self.clusterAffinities) == 0",message="clusterAffinity and clusterAffinities exclude each other: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.clusterAffinities) || !self.clusterAffinities.exists(a, has(a.overflowAffinities) && size(a.overflowAffinities) > 0) || has(self.replicaScheduling) && self.replicaScheduling.replicaSchedulingType == 'Divided' && (has(self.replicaScheduling.replicaDivisionPreference) && self.replicaScheduling.replicaDivisionPreference == 'Aggregated' || has(self.replicaScheduling.weightPreference) && has(self.replicaScheduling.weightPreference.dynamicWeight))",message="overflowAffinities need replicas that are divided by what clusters have room for: set replicaScheduling to replicaSchedulingType Divided with replicaDivisionPreference Aggregated or weightPreference.dynamicWeight"
type Placement struct {
	// clusterAffinity selects clusters. Default: all clusters. It excludes
	// clusterAffinities.
	// +optional
	ClusterAffinity *ClusterAffinity `json:"clusterAffinity,omitempty"`

	// clusterAffinities are groups of clusters. The first group, in their order, in
	// which the object can be placed is used. It excludes clusterAffinity.
	// +optional
	// +listType=map
	// +listMapKey=affinityName
	ClusterAffinities []ClusterAffinityTerm `json:"clusterAffinities,omitempty"`

	// clusterTolerations tolerate taints of clusters. Operators Lt and Gt are not
	// supported.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ClusterTolerations []corev1.Toleration `json:"clusterTolerations,omitempty"`

	// spreadConstraints say over how many clusters, regions and so on to spread. If
	// any is by field, one is by cluster.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="!self.exists(c, has(c.spreadByField)) || self.exists(c, has(c.spreadByField) && c.spreadByField == 'cluster')",message="add a constraint with spreadByField cluster: it says how many clusters are chosen of the groups"
	// +kubebuilder:validation:XValidation:rule="['cluster', 'region', 'zone', 'provider'].all(f, self.filter(c, has(c.spreadByField) && c.spreadByField == f).size() <= 1)",message="two constraints have the same spreadByField: remove one of them"
	SpreadConstraints []SpreadConstraint `json:"spreadConstraints,omitempty"`

	// replicaScheduling defines how replicas are divided. Default: each cluster gets
	// all replicas.
	// +optional
	ReplicaScheduling *ReplicaSchedulingStrategy `json:"replicaScheduling,omitempty"`

	// workloadAffinity keeps workloads together or apart. It needs feature gate
	// WorkloadAffinity.
	// +optional
	WorkloadAffinity *WorkloadAffinity `json:"workloadAffinity,omitempty"`
}

// ClusterAffinity selects the clusters that meet all of its conditions.
type ClusterAffinity struct {
	// labelSelector selects clusters by their labels. Default: all.
	// +optional
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`

	// fieldSelector selects clusters by fields provider, region and zone. Default:
	// all.
	// +optional
	FieldSelector *FieldSelector `json:"fieldSelector,omitempty"`

	// clusterNames are the names of the clusters. Default: all.
	// +optional
	ClusterNames []string `json:"clusterNames,omitempty"`

	// exclude are names of clusters that are not selected, whatever the other fields
	// say.
	// +optional
	ExcludeClusters []string `json:"exclude,omitempty"`
}

// FieldSelector selects clusters by fields of their spec.
type FieldSelector struct {
	// matchExpressions have to be met, all of them. Keys are provider, region and
	// zone, operators In and NotIn.
	// +optional
	MatchExpressions []corev1.NodeSelectorRequirement `json:"matchExpressions,omitempty"`
}

// ClusterAffinityTerm is a group of clusters with a name.
//
// +kubebuilder:validation:XValidation:rule="!has(self.overflowAffinities) || size(self.overflowAffinities) == 0 || has(self.labelSelector) || has(self.fieldSelector) || has(self.clusterNames) && size(self.clusterNames) > 0 || has(self.exclude) && size(self.exclude) > 0",message="a group with overflowAffinities has to select clusters itself, as nothing overflows from all clusters: set labelSelector, fieldSelector, clusterNames or exclude"
type ClusterAffinityTerm struct {
	// affinityName is the name of the group, unique in the policy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	AffinityName string `json:"affinityName"`

	ClusterAffinity `json:",inline"`

	// overflowAffinities are further clusters, used in their order when those before
	// do not have room for all replicas.
	// +optional
	OverflowAffinities []OverflowClusterAffinity `json:"overflowAffinities,omitempty"`
}

// OverflowClusterAffinity is a group of clusters for what other groups have no
// room for.
type OverflowClusterAffinity struct {
	// affinityName is the name of the group, unique in the policy.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	AffinityName string `json:"affinityName"`

	ClusterAffinity `json:",inline"`
}

// SpreadFieldValue is a field of a cluster to spread over.
//
// +kubebuilder:validation:Enum=cluster;region;zone;provider
type SpreadFieldValue string

const (
	// SpreadByCluster counts clusters.
	SpreadByCluster SpreadFieldValue = "cluster"
	// SpreadByRegion counts regions.
	SpreadByRegion SpreadFieldValue = "region"
	// SpreadByZone counts zones.
	SpreadByZone SpreadFieldValue = "zone"
	// SpreadByProvider counts providers.
	SpreadByProvider SpreadFieldValue = "provider"
)

// SpreadConstraint defines over how many groups of clusters to spread.
//
// +kubebuilder:validation:XValidation:rule="!has(self.spreadByField) || !has(self.spreadByLabel)",message="spreadByField and spreadByLabel exclude each other: make two constraints of it"
// +kubebuilder:validation:XValidation:rule="!has(self.maxGroups) || self.maxGroups == 0 || !has(self.minGroups) || self.minGroups <= self.maxGroups",message="minGroups is greater than maxGroups: lower it, or raise maxGroups"
type SpreadConstraint struct {
	// spreadByField is the field of clusters that makes the groups: cluster, region,
	// zone or provider. It excludes spreadByLabel.
	// +optional
	SpreadByField SpreadFieldValue `json:"spreadByField,omitempty"`

	// spreadByLabel is the key of the label of clusters that makes the groups. It
	// excludes spreadByField.
	// +optional
	SpreadByLabel string `json:"spreadByLabel,omitempty"`

	// maxGroups is the maximum number of groups to choose. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxGroups int `json:"maxGroups,omitempty"`

	// minGroups is the minimum number of groups to choose. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinGroups int `json:"minGroups,omitempty"`
}

// ReplicaSchedulingType is what each cluster gets.
//
// +kubebuilder:validation:Enum=Duplicated;Divided
type ReplicaSchedulingType string

const (
	// ReplicaSchedulingTypeDuplicated gives each cluster all replicas.
	ReplicaSchedulingTypeDuplicated ReplicaSchedulingType = "Duplicated"
	// ReplicaSchedulingTypeDivided divides the replicas among the clusters.
	ReplicaSchedulingTypeDivided ReplicaSchedulingType = "Divided"
)

// ReplicaDivisionPreference is how replicas are divided.
//
// +kubebuilder:validation:Enum=Aggregated;Weighted
type ReplicaDivisionPreference string

const (
	// ReplicaDivisionPreferenceAggregated uses as few clusters as have room.
	ReplicaDivisionPreferenceAggregated ReplicaDivisionPreference = "Aggregated"
	// ReplicaDivisionPreferenceWeighted divides by weights.
	ReplicaDivisionPreferenceWeighted ReplicaDivisionPreference = "Weighted"
)

// DynamicWeightFactor is what weights are made of.
//
// +kubebuilder:validation:Enum=AvailableReplicas
type DynamicWeightFactor string

// DynamicWeightByAvailableReplicas weighs clusters by how many replicas they have
// room for.
const DynamicWeightByAvailableReplicas DynamicWeightFactor = "AvailableReplicas"

// ReplicaSchedulingStrategy defines how replicas are divided.
type ReplicaSchedulingStrategy struct {
	// replicaSchedulingType is what each cluster gets: Duplicated, all replicas, or
	// Divided, a share of them.
	// +kubebuilder:default=Divided
	// +optional
	ReplicaSchedulingType ReplicaSchedulingType `json:"replicaSchedulingType,omitempty"`

	// replicaDivisionPreference is how the replicas are divided with type Divided:
	// Weighted, by weights, or Aggregated, on as few clusters as have room. Default:
	// Weighted.
	// +optional
	ReplicaDivisionPreference ReplicaDivisionPreference `json:"replicaDivisionPreference,omitempty"`

	// weightPreference has the weights for preference Weighted. Default: all clusters
	// weigh the same.
	// +optional
	WeightPreference *ClusterPreferences `json:"weightPreference,omitempty"`
}

// ClusterPreferences are the weights of clusters.
type ClusterPreferences struct {
	// staticWeightList are weights by cluster. Of several that match a cluster, the
	// greatest counts. A cluster that none matches gets no replicas.
	// +optional
	StaticWeightList []StaticClusterWeight `json:"staticWeightList,omitempty"`

	// dynamicWeight makes weights from the state of the clusters, and takes
	// precedence over staticWeightList.
	// +optional
	DynamicWeight DynamicWeightFactor `json:"dynamicWeight,omitempty"`
}

// StaticClusterWeight is the weight of clusters.
type StaticClusterWeight struct {
	// targetCluster selects the clusters.
	// +required
	TargetCluster ClusterAffinity `json:"targetCluster"`

	// weight is their weight.
	// +required
	// +kubebuilder:validation:Minimum=1
	Weight int64 `json:"weight"`
}

// WorkloadAffinity keeps workloads of a namespace together or apart.
//
// +kubebuilder:validation:XValidation:rule="!has(self.affinity) || !has(self.antiAffinity) || self.affinity.groupByLabelKey != self.antiAffinity.groupByLabelKey",message="affinity and antiAffinity have the same groupByLabelKey, so that nothing could be placed: use another key for one of them"
type WorkloadAffinity struct {
	// affinity keeps workloads together.
	// +optional
	Affinity *WorkloadAffinityTerm `json:"affinity,omitempty"`

	// antiAffinity keeps workloads apart.
	// +optional
	AntiAffinity *WorkloadAffinityTerm `json:"antiAffinity,omitempty"`
}

// WorkloadAffinityTerm groups workloads.
type WorkloadAffinityTerm struct {
	// groupByLabelKey is the key of a label; workloads with the same value of it are
	// a group.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	GroupByLabelKey string `json:"groupByLabelKey"`
}
