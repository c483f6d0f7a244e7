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
// On acceptance the hub makes a namespace of the same name, so the name has to
// be a valid namespace name (at most 63 characters). Everything that concerns
// this member alone lives in that namespace.
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

	// spec is what the hub wants of this member.
	Spec ManagedClusterSpec `json:"spec"`

	// status is what hub and agent have seen of this member.
	// +optional
	Status ManagedClusterStatus `json:"status,omitempty"`
}

// ManagedClusterSpec is what the hub wants of a member.
type ManagedClusterSpec struct {
	// managedClusterClientConfigs tells how to reach the member's API server from
	// outside. The agent fills it from its externalServerURLs; nothing on the hub
	// connects to a member by it. Empty means unknown.
	// +optional
	ManagedClusterClientConfigs []ClientConfig `json:"managedClusterClientConfigs,omitempty"`

	// hubAcceptsClient is the hub's half of the agreement to join. While it is
	// true the agent of this member may use its namespace on the hub. Setting it
	// back to false takes these rights away but keeps namespace and objects; the
	// member can be accepted again. Setting it to true needs the permission to
	// update managedclusters/accept in group register.open-cluster-management.io.
	// Default: false.
	// +optional
	HubAcceptsClient bool `json:"hubAcceptsClient"`

	// leaseDurationSeconds is the time in seconds between two heartbeats of the
	// agent. The hub holds the member for unreachable (condition
	// ManagedClusterConditionAvailable is Unknown) after five times this without
	// a heartbeat. Default: 60, also where 0 is given.
	// +optional
	// +kubebuilder:default=60
	LeaseDurationSeconds int32 `json:"leaseDurationSeconds,omitempty"`

	// taints keep workload that does not tolerate them away from this member. The
	// hub itself sets the keys cluster.open-cluster-management.io/unavailable and
	// cluster.open-cluster-management.io/unreachable.
	// +optional
	Taints []Taint `json:"taints,omitempty"`
}

// ClientConfig tells how to connect to a member's API server.
type ClientConfig struct {
	// url is the address of the API server. It has to begin with https://.
	// +required
	URL string `json:"url"`

	// caBundle has the PEM encoded certificates that the API server's certificate
	// is verified with. Empty means the system's certificates.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// Taint keeps away from a member what does not tolerate it.
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

	// effect tells what happens to workload that does not tolerate the taint:
	// NoSelect moves it away, PreferNoSelect chooses other members where there
	// are any, NoSelectIfNew keeps what is there and lets nothing new in.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=NoSelect;PreferNoSelect;NoSelectIfNew
	Effect TaintEffect `json:"effect"`

	// timeAdded is the time at which the taint was set; tolerations with a time
	// limit count from it. The hub's webhook writes it and refuses a value that
	// is given by a user.
	// +optional
	// +nullable
	TimeAdded metav1.Time `json:"timeAdded"`
}

// TaintEffect tells what a taint does to workload that does not tolerate it.
type TaintEffect string

const (
	// TaintEffectNoSelect moves away workload that does not tolerate the taint.
	TaintEffectNoSelect TaintEffect = "NoSelect"
	// TaintEffectPreferNoSelect chooses other members where there are any.
	TaintEffectPreferNoSelect TaintEffect = "PreferNoSelect"
	// TaintEffectNoSelectIfNew keeps workload that is there and lets none in.
	TaintEffectNoSelectIfNew TaintEffect = "NoSelectIfNew"
)

// ManagedClusterStatus is what hub and agent have seen of a member. Both write
// it, each its own condition types and fields.
type ManagedClusterStatus struct {
	// conditions tell how far the member's registration is and how the member is;
	// see docs/spec/cluster/managedcluster.md.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`

	// capacity is the sum of the capacities of the member's nodes, for each
	// resource that a node has. Written by the agent.
	Capacity ResourceList `json:"capacity,omitempty"`

	// allocatable is the sum of what pods may use of the member's nodes, without
	// the nodes that are cordoned. Written by the agent.
	Allocatable ResourceList `json:"allocatable,omitempty"`

	// version is the version of the member. Written by the agent.
	Version ManagedClusterVersion `json:"version,omitempty"`

	// clusterClaims are the facts that the member tells of itself by ClusterClaim
	// objects: those with reserved names first, then the others, each group in
	// the order of names. The number of others is limited; see maxCustomClusterClaims
	// of the Klusterlet. Written by the agent.
	// +optional
	ClusterClaims []ManagedClusterClaim `json:"clusterClaims,omitempty"`

	// managedNamespaces are the namespaces that the member shall have because it
	// is in a ManagedClusterSet that asks for them. The hub writes the names, the
	// agent the conditions.
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

// ManagedClusterClaim is one fact that a member tells of itself.
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

// ManagedNamespaceConfig is a namespace that members shall have.
type ManagedNamespaceConfig struct {
	// name is the name of the namespace, a DNS label of at most 63 characters.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ClusterSetManagedNamespaceConfig is a namespace that a member shall have
// because of one ManagedClusterSet.
type ClusterSetManagedNamespaceConfig struct {
	ManagedNamespaceConfig `json:",inline"`

	// clusterSet is the name of the ManagedClusterSet that asks for the namespace.
	// +required
	ClusterSet string `json:"clusterSet"`

	// conditions tell whether the member has the namespace (type NamespaceAvailable).
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ResourceName is the name of a resource of nodes, such as cpu, memory, pods or
// example.com/gpu.
type ResourceName string

const (
	// ResourceCPU is processor time, in cores.
	ResourceCPU ResourceName = "cpu"
	// ResourceMemory is memory, in bytes.
	ResourceMemory ResourceName = "memory"
)

// ResourceList is an amount for each of some resources.
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
