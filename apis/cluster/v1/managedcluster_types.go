// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedCluster represents a member cluster on the hub. It is created by the
// member's agent when it registers, or before that by an administrator of the
// hub. A member joins when both sides agree: the agent holds a client
// certificate that the hub has approved, and spec.hubAcceptsClient is true.
//
// On acceptance the hub creates a namespace of the same name, so the name must
// be a valid namespace name (at most 63 characters). Everything specific to
// this member lives in that namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName={mcl,mcls}
// +kubebuilder:printcolumn:name="Hub Accepted",type=boolean,JSONPath=`.spec.hubAcceptsClient`
// +kubebuilder:printcolumn:name="Managed Cluster URLs",type=string,JSONPath=`.spec.managedClusterClientConfigs[*].url`
// +kubebuilder:printcolumn:name="Joined",type=string,JSONPath=`.status.conditions[?(@.type=="ManagedClusterJoined")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of this member.
	Spec ManagedClusterSpec `json:"spec"`

	// status is the state of this member, as observed by the hub and the agent.
	// +optional
	Status ManagedClusterStatus `json:"status,omitempty"`
}

// ManagedClusterSpec is the desired state of a member.
type ManagedClusterSpec struct {
	// managedClusterClientConfigs are the addresses of the member's API server for
	// clients outside the member. The agent sets them from its externalServerURLs;
	// the hub itself does not use them. Empty means unknown.
	// +optional
	ManagedClusterClientConfigs []ClientConfig `json:"managedClusterClientConfigs,omitempty"`

	// hubAcceptsClient is the hub's approval of the join. While it is true, the
	// agent of this member may use its namespace on the hub. Setting it back to
	// false revokes these permissions but keeps the namespace and its objects; the
	// member can be accepted again. Setting it to true requires the permission to
	// update managedclusters/accept in group register.open-cluster-management.io.
	// Default: false.
	// +optional
	HubAcceptsClient bool `json:"hubAcceptsClient"`

	// leaseDurationSeconds is the time in seconds between two heartbeats of the
	// agent. After five times this duration without a heartbeat, the hub considers
	// the member unreachable (condition ManagedClusterConditionAvailable is
	// Unknown). Default: 60, also if set to 0.
	// +optional
	// +kubebuilder:default=60
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`

	// taints keep workloads that do not tolerate them away from this member. The
	// hub itself sets the keys cluster.open-cluster-management.io/unavailable and
	// cluster.open-cluster-management.io/unreachable.
	// +optional
	Taints []Taint `json:"taints,omitempty"`
}

// ClientConfig is an address of a member's API server.
type ClientConfig struct {
	// url is the address of the API server. It must start with https://.
	// +required
	URL string `json:"url"`

	// caBundle contains the PEM-encoded CA certificates that verify the API
	// server's certificate. Empty means the system's CA certificates.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// Taint keeps workloads that do not tolerate it away from a member.
type Taint struct {
	// key is the taint's name, a label key such as example.com/maintenance, of at
	// most 316 characters.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	Key string `json:"key"`

	// value is the taint's value, of at most 1024 characters. Default: empty.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect is what happens to workloads that do not tolerate the taint: NoSelect
	// moves them away, PreferNoSelect prefers other members, NoSelectIfNew keeps
	// existing workloads and admits no new ones.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=NoSelect;PreferNoSelect;NoSelectIfNew
	Effect TaintEffect `json:"effect"`

	// timeAdded is the time at which the taint was set; tolerations with a time
	// limit count from it. The hub's webhook sets it and rejects values set by
	// users.
	// +optional
	// +nullable
	TimeAdded metav1.Time `json:"timeAdded"`
}

// TaintEffect is what a taint does to workloads that do not tolerate it.
type TaintEffect string

const (
	// TaintEffectNoSelect moves away workloads that do not tolerate the taint.
	TaintEffectNoSelect TaintEffect = "NoSelect"
	// TaintEffectPreferNoSelect prefers other members.
	TaintEffectPreferNoSelect TaintEffect = "PreferNoSelect"
	// TaintEffectNoSelectIfNew keeps existing workloads and admits no new ones.
	TaintEffectNoSelectIfNew TaintEffect = "NoSelectIfNew"
)

// ManagedClusterStatus is the observed state of a member. Hub and agent both
// write it, each its own condition types and fields.
type ManagedClusterStatus struct {
	// conditions report the progress of the member's registration and its health;
	// see docs/spec/cluster/managedcluster.md.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`

	// capacity is the total capacity of the member's nodes, per resource. Written
	// by the agent.
	Capacity ResourceList `json:"capacity,omitempty"`

	// allocatable is the total allocatable capacity of the member's nodes, per
	// resource, without cordoned nodes. Written by the agent.
	Allocatable ResourceList `json:"allocatable,omitempty"`

	// version is the Kubernetes version of the member. Written by the agent.
	Version ManagedClusterVersion `json:"version,omitempty"`

	// clusterClaims are the properties that the member declares in ClusterClaims:
	// those with reserved names first, then the others, each sorted by name. The
	// number of others is limited; see maxCustomClusterClaims of the Klusterlet.
	// Written by the agent.
	// +optional
	ClusterClaims []ManagedClusterClaim `json:"clusterClaims,omitempty"`

	// managedNamespaces are the namespaces that the member's ManagedClusterSets
	// request. The hub writes the names, the agent the conditions.
	// +optional
	// +listType=map
	// +listMapKey=clusterSet
	// +listMapKey=name
	ManagedNamespaces []ClusterSetManagedNamespaceConfig `json:"managedNamespaces,omitempty"`
}

// ManagedClusterVersion is the version of a member.
type ManagedClusterVersion struct {
	// kubernetes is the version of the member's API server, such as v1.36.3.
	// +optional
	Kubernetes string `json:"kubernetes,omitempty"`
}

// ManagedClusterClaim is one property of a member.
type ManagedClusterClaim struct {
	// name is the name of the ClusterClaim, of 1 to 253 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// value is the value of the ClusterClaim, of 1 to 1024 characters.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`
}

// ManagedNamespaceConfig is a namespace to create on members.
type ManagedNamespaceConfig struct {
	// name is the name of the namespace, a DNS label of at most 63 characters.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ClusterSetManagedNamespaceConfig is a namespace that a ManagedClusterSet
// requests on a member.
type ClusterSetManagedNamespaceConfig struct {
	ManagedNamespaceConfig `json:",inline"`

	// clusterSet is the name of the ManagedClusterSet that requests the namespace.
	// +required
	ClusterSet string `json:"clusterSet"`

	// conditions report whether the member has the namespace (type
	// NamespaceAvailable).
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ResourceName is the name of a node resource, such as cpu, memory, pods or
// example.com/gpu.
type ResourceName string

const (
	// ResourceCPU is CPU, in cores.
	ResourceCPU ResourceName = "cpu"
	// ResourceMemory is memory, in bytes.
	ResourceMemory ResourceName = "memory"
)

// ResourceList maps resources to quantities.
type ResourceList map[ResourceName]resource.Quantity

// ManagedClusterList is a list of ManagedClusters.
//
// +kubebuilder:object:root=true
type ManagedClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ManagedClusters.
	Items []ManagedCluster `json:"items"`
}
