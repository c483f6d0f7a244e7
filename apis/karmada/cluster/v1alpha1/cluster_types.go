// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cluster is a member of the hub: one that its agent connects to the hub (Pull),
// or one that the hub connects to (Push).
//
// +kubebuilder:object:root=true
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the cluster is connected, where it is, and what keeps workloads
	// away from it.
	Spec ClusterSpec `json:"spec"`

	// status is the observed state of the cluster.
	// +optional
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterSyncMode is which side opens the connection.
type ClusterSyncMode string

const (
	// Push is for a cluster that the hub connects to.
	Push ClusterSyncMode = "Push"
	// Pull is for a cluster whose agent connects to the hub.
	Pull ClusterSyncMode = "Pull"
)

// ClusterSpec is how a cluster is connected, where it is, and what keeps
// workloads away from it.
type ClusterSpec struct {
	// id identifies the cluster: the UID of its kube-system namespace. The hub
	// learns it from the cluster; it cannot be set to anything else.
	// +optional
	ID string `json:"id,omitempty"`

	// syncMode is which side opens the connection: Push or Pull. It cannot be
	// changed.
	// +required
	SyncMode ClusterSyncMode `json:"syncMode"`

	// apiEndpoint is the URL of the cluster's API server as seen from the hub, such
	// as https://member.example.com:6443. It is required with syncMode Push.
	// +optional
	APIEndpoint string `json:"apiEndpoint,omitempty"`

	// secretRef refers to the Secret on the hub with the credential: key token has
	// the bearer token, key caBundle the PEM-encoded CA certificates.
	// +optional
	SecretRef *LocalSecretReference `json:"secretRef,omitempty"`

	// impersonatorSecretRef refers to the Secret on the hub with the token, under
	// key token, of an account that may impersonate users.
	// +optional
	ImpersonatorSecretRef *LocalSecretReference `json:"impersonatorSecretRef,omitempty"`

	// insecureSkipTLSVerification disables verification of the API server's
	// certificate: for tests only.
	// +optional
	InsecureSkipTLSVerification bool `json:"insecureSkipTLSVerification,omitempty"`

	// proxyURL is the proxy through which the hub connects to the cluster: http://,
	// https:// or socks5://.
	// +optional
	ProxyURL string `json:"proxyURL,omitempty"`

	// proxyHeader are headers sent to an http or https proxy with CONNECT. Multiple
	// values of a header are separated by commas.
	// +optional
	ProxyHeader map[string]string `json:"proxyHeader,omitempty"`

	// provider is the cluster's provider, such as a cloud.
	// +optional
	Provider string `json:"provider,omitempty"`

	// region is the cluster's region.
	// +optional
	Region string `json:"region,omitempty"`

	// zone is the zone of the cluster. Deprecated: use zones, to which it is moved.
	// +optional
	Zone string `json:"zone,omitempty"`

	// zones are the zones in which the cluster has nodes.
	// +optional
	Zones []string `json:"zones,omitempty"`

	// taints keep workloads away that do not tolerate them.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`

	// resourceModels sort the nodes into grades by what they can allocate. Default:
	// nine grades, from one CPU and 4Gi of memory up.
	// +optional
	// +listType=atomic
	ResourceModels []ResourceModel `json:"resourceModels,omitempty"`
}

// LocalSecretReference refers to a Secret on the hub.
type LocalSecretReference struct {
	// namespace is the namespace of the Secret.
	Namespace string `json:"namespace"`

	// name is the name of the Secret.
	Name string `json:"name"`
}

// ResourceModel is a grade of nodes.
type ResourceModel struct {
	// grade is the number of the grade; it is unique in a list.
	// +required
	Grade uint `json:"grade"`

	// ranges are what a node of the grade can allocate, by resource.
	// +required
	// +listType=atomic
	Ranges []ResourceModelRange `json:"ranges"`
}

// ResourceModelRange is a range of quantities of a resource: min <= x < max.
type ResourceModelRange struct {
	// name is the resource, such as cpu.
	// +required
	Name corev1.ResourceName `json:"name"`

	// min is the least quantity of the range.
	// +required
	Min resource.Quantity `json:"min"`

	// max is the quantity at which the next range begins.
	// +required
	Max resource.Quantity `json:"max"`
}

// ClusterStatus is the observed state of a cluster.
type ClusterStatus struct {
	// kubernetesVersion is the version of the API server, such as v1.36.3.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// apiEnablements are the resources that the cluster serves.
	// +optional
	// +listType=atomic
	APIEnablements []APIEnablement `json:"apiEnablements,omitempty"`

	// conditions report whether the cluster is ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// nodeSummary counts the nodes.
	// +optional
	NodeSummary *NodeSummary `json:"nodeSummary,omitempty"`

	// resourceSummary is the capacity of the nodes.
	// +optional
	ResourceSummary *ResourceSummary `json:"resourceSummary,omitempty"`

	// remedyActions are actions that remedies ask for. The hub writes none.
	// +optional
	// +listType=atomic
	RemedyActions []string `json:"remedyActions,omitempty"`
}

// APIEnablement is a group and version that a cluster serves.
type APIEnablement struct {
	// groupVersion is the group and version, such as apps/v1.
	GroupVersion string `json:"groupVersion"`

	// resources of the group and version, without subresources.
	// +optional
	// +listType=atomic
	Resources []APIResource `json:"resources,omitempty"`
}

// APIResource is a resource that a cluster serves.
type APIResource struct {
	// name is the plural name, such as deployments.
	// +required
	Name string `json:"name"`

	// kind is the kind of its objects, such as Deployment.
	// +required
	Kind string `json:"kind"`
}

// NodeSummary counts the nodes of a cluster.
type NodeSummary struct {
	// totalNum is the number of all nodes.
	// +optional
	TotalNum int32 `json:"totalNum,omitempty"`

	// readyNum is the number of ready nodes.
	// +optional
	ReadyNum int32 `json:"readyNum,omitempty"`
}

// ResourceSummary is the capacity of a cluster's nodes.
type ResourceSummary struct {
	// allocatable is the total allocatable capacity, without cordoned nodes.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`

	// allocating is what pods request that are not assigned to a node yet.
	// +optional
	Allocating corev1.ResourceList `json:"allocating,omitempty"`

	// allocated is what pods request that are assigned to a node and not finished.
	// +optional
	Allocated corev1.ResourceList `json:"allocated,omitempty"`

	// allocatableModelings count the nodes of each grade of spec.resourceModels.
	// +optional
	// +listType=atomic
	AllocatableModelings []AllocatableModeling `json:"allocatableModelings,omitempty"`
}

// AllocatableModeling counts the nodes of a grade.
type AllocatableModeling struct {
	// grade is that of the resource model.
	// +required
	Grade uint `json:"grade"`

	// count is the number of nodes of the grade.
	// +required
	Count int `json:"count"`
}

// ClusterList is a list of Clusters.
//
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Clusters.
	Items []Cluster `json:"items"`
}
