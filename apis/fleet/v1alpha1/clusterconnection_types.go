// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterConnection is how the hub and a member connect, and the observed state
// of the member. It has the same name as its ManagedCluster, which controls
// whether the hub accepts the member.
//
// A Pull cluster runs its own agent, which connects to the hub. A Push cluster
// is served by the push agent, which runs on the hub and connects to the
// cluster: that requires an apiEndpoint here, and a Secret with a token in the
// namespace of the cluster.
//
// +genclient
// +genclient:nonNamespaced
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=clcon
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.syncMode`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodeSummary.totalNum`
// +kubebuilder:printcolumn:name="Nodes Ready",type=integer,JSONPath=`.status.nodeSummary.readyNum`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].reason`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.spec.apiEndpoint`,priority=1
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`,priority=1
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`,priority=1
// +kubebuilder:printcolumn:name="Zones",type=string,JSONPath=`.spec.zones`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name is that of the ManagedCluster, so it has to be a DNS label of at most 63 characters"
type ClusterConnection struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines how to connect to the cluster.
	Spec ClusterConnectionSpec `json:"spec"`

	// cluster is what the Cluster API (cluster.karmada.io/v1alpha1) serves of this
	// cluster besides the spec and the status: a mirror of the ManagedCluster, and
	// what only Cluster has. The hub maintains it while the feature gate
	// AggregatedAPI is on; nobody else may change it.
	// +optional
	Cluster *ClusterProjection `json:"cluster,omitempty"`

	// status is the observed state of the cluster.
	// +optional
	Status ClusterConnectionStatus `json:"status,omitempty"`
}

// SyncMode is which side opens the connection.
type SyncMode string

const (
	// SyncModePull is for a cluster whose own agent connects to the hub.
	SyncModePull SyncMode = "Pull"
	// SyncModePush is for a cluster that the push agent connects to from the hub.
	SyncModePush SyncMode = "Push"
)

// ClusterConnectionSpec is how to connect to a cluster, and where it is.
//
// +kubebuilder:validation:XValidation:rule="self.syncMode != 'Push' || has(self.apiEndpoint)",message="apiEndpoint is required with syncMode Push: the push agent dials it"
// +kubebuilder:validation:XValidation:rule="!has(self.proxyHeader) || has(self.proxyURL) && !self.proxyURL.startsWith('socks5://')",message="proxyHeader needs a proxyURL that begins with http:// or https://"
type ClusterConnectionSpec struct {
	// syncMode is which side opens the connection: with Pull an agent in the
	// cluster connects to the hub, with Push the push agent on the hub connects to
	// the cluster. Works, status and availability are the same in both.
	// +kubebuilder:default=Pull
	// +kubebuilder:validation:Enum=Pull;Push
	SyncMode SyncMode `json:"syncMode,omitempty"`

	// apiEndpoint is the URL of the cluster's API server as seen from the hub,
	// such as https://member.example.com:6443. It must not resolve to loopback or
	// link-local addresses, or to Services of the hub, unless the push agent is
	// configured to allow that.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",message="has to be a URL such as https://member.example.com:6443"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@') && !self.contains('?') && !self.contains('#')",message="must not have credentials, a query or a fragment"
	APIEndpoint string `json:"apiEndpoint,omitempty"`

	// secretRef names the Secret with the credential in the namespace of the
	// cluster: key token has the bearer token, key caBundle the PEM-encoded CA
	// certificates that verify the API server's certificate; without caBundle the
	// system's are used. Changes take effect within seconds. Default:
	// cluster-connection, which the push agent may read for all Push clusters; for
	// any other name, grant it get, list and watch.
	// +optional
	SecretRef *SecretReference `json:"secretRef,omitempty"`

	// impersonatorSecretRef names the Secret in the namespace of the cluster with
	// the token, under key token, of an account that may impersonate users. It is
	// reserved for proxying requests to the cluster, which this version does not
	// support: nothing reads it yet.
	// +optional
	ImpersonatorSecretRef *SecretReference `json:"impersonatorSecretRef,omitempty"`

	// insecureSkipTLSVerification disables verification of the API server's
	// certificate, so anyone in between can steal the token: for tests only. It is
	// rejected while the Secret has a caBundle.
	// +optional
	InsecureSkipTLSVerification bool `json:"insecureSkipTLSVerification,omitempty"`

	// proxyURL is the proxy through which the hub connects to the cluster:
	// http://, https:// or socks5://, without credentials. Default: no proxy.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https', 'socks5'] && url(self).getHostname() != ''",message="has to be a URL that begins with http://, https:// or socks5://"
	// +kubebuilder:validation:XValidation:rule="!self.contains('@')",message="must not have credentials: they belong in proxyHeader"
	ProxyURL string `json:"proxyURL,omitempty"`

	// proxyHeader are headers sent to an http or https proxy with CONNECT.
	// Separate multiple values of a header with commas.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	ProxyHeader map[string]string `json:"proxyHeader,omitempty"`

	// provider is the cluster's provider, such as a cloud. Default: status.provider.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`

	// region is the cluster's region. Default: status.region.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Region string `json:"region,omitempty"`

	// zones are the zones in which the cluster has nodes. Default: status.zones.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=253
	Zones []string `json:"zones,omitempty"`

	// agentLabels are the keys of the labels of its ManagedCluster that the agent of
	// the cluster may change once the hub has accepted it: "env" for one label,
	// "example.com/*" for all with a prefix, "*" for all but that of the cluster set.
	// Policies, placements and cluster sets choose clusters by labels, so these are
	// the ones by which the cluster itself chooses what it is sent. An empty list
	// allows none. Default: the annotation fleet.capstan.io/agent-labels of the
	// ClusterManager, and none without it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^(\*|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/\*|([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)$`
	AgentLabels *[]string `json:"agentLabels,omitempty"`

	// pinnedClaims are claims of the cluster whose values an administrator knows.
	// Placements and policies see these whatever the cluster reports under their
	// names; status.clusterClaims of the ManagedCluster goes on to show what it
	// reports. Default: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	PinnedClaims []PinnedClaim `json:"pinnedClaims,omitempty"`

	// resourceModels sort the nodes into grades by what they can allocate;
	// status.resourceSummary counts the nodes of each grade. Default: nine grades,
	// from one CPU and 4Gi of memory up. An empty list counts none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	ResourceModels *[]ResourceModel `json:"resourceModels,omitempty"`
}

// PinnedClaim is the value of a claim.
type PinnedClaim struct {
	// name is that of the claim, such as region.open-cluster-management.io.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// value is the value that counts.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
}

// ResourceModel is a grade of nodes.
type ResourceModel struct {
	// grade is the number of the grade; it is unique in a list.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Minimum=0
	Grade int32 `json:"grade"`

	// ranges are what a node of the grade can allocate, by resource.
	// +required
	// +kubebuilder:validation:Required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Ranges []ResourceModelRange `json:"ranges"`
}

// ResourceModelRange is a range of quantities of a resource: min <= x < max.
type ResourceModelRange struct {
	// name is the resource, such as cpu.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Name string `json:"name"`

	// min is the least quantity of the range.
	// +required
	// +kubebuilder:validation:Required
	Min resource.Quantity `json:"min"`

	// max is the quantity at which the next range begins.
	// +required
	// +kubebuilder:validation:Required
	Max resource.Quantity `json:"max"`
}

// SecretReference names a Secret in the namespace of the cluster on the hub.
type SecretReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// ClusterConnectionStatus is the observed state of a cluster. The cluster's
// agent writes it: its own with syncMode Pull, the push agent with Push.
type ClusterConnectionStatus struct {
	// conditions report whether the cluster is connected and its credential valid;
	// see docs/spec/fleet/clusterconnection.md.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// id identifies the cluster: the UID of its kube-system namespace. It is
	// unique: a second connection to the same cluster is refused.
	// +optional
	ID string `json:"id,omitempty"`

	// kubernetesVersion is the version of the API server, such as v1.36.3.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// provider is the provider of all nodes, the scheme of their providerID, such as
	// aws. It is empty if they differ.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Provider string `json:"provider,omitempty"`

	// region is the region of all nodes, by their label topology.kubernetes.io/region.
	// It is empty if they differ.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Region string `json:"region,omitempty"`

	// zones are the zones of the nodes, by their labels topology.kubernetes.io/zone,
	// sorted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=253
	Zones []string `json:"zones,omitempty"`

	// apiEnablements are the resources that the cluster serves, sorted by
	// groupVersion; at most 500 groups and versions.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=500
	APIEnablements []APIEnablement `json:"apiEnablements,omitempty"`

	// nodeSummary counts the nodes.
	// +optional
	NodeSummary *NodeSummary `json:"nodeSummary,omitempty"`

	// resourceSummary is the capacity of the nodes.
	// +optional
	ResourceSummary *ResourceSummary `json:"resourceSummary,omitempty"`

	// hubAuthorities are the certificate authorities by which the agent of a Pull
	// cluster verifies the hub: the hashes of their public keys, as kubeadm writes
	// them, sorted. There are none if it verifies it by those of its system, or not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	HubAuthorities []string `json:"hubAuthorities,omitempty"`
}

// HubAuthoritiesMax is how many authorities of the hub an agent reports.
const HubAuthoritiesMax = 64

// APIEnablement is a group and version that a cluster serves.
type APIEnablement struct {
	// groupVersion is the group and version, such as apps/v1.
	// +required
	// +kubebuilder:validation:Required
	GroupVersion string `json:"groupVersion"`

	// resources of the group and version, sorted by name, without subresources.
	// +optional
	// +listType=atomic
	Resources []APIResource `json:"resources,omitempty"`
}

// APIResource is a resource that a cluster serves.
type APIResource struct {
	// name is the plural name, such as deployments.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`

	// kind is the kind of its objects, such as Deployment.
	// +required
	// +kubebuilder:validation:Required
	Kind string `json:"kind"`
}

// NodeSummary counts the nodes of a cluster.
type NodeSummary struct {
	// totalNum is the number of all nodes.
	TotalNum int32 `json:"totalNum"`

	// readyNum is the number of ready nodes.
	ReadyNum int32 `json:"readyNum"`
}

// ResourceSummary is the capacity of a cluster's nodes.
type ResourceSummary struct {
	// capacity is the total capacity of all nodes.
	// +optional
	Capacity ResourceList `json:"capacity,omitempty"`

	// allocatable is the total allocatable capacity, without cordoned nodes.
	// +optional
	Allocatable ResourceList `json:"allocatable,omitempty"`

	// allocating is what pods request that are not assigned to a node yet.
	// +optional
	Allocating ResourceList `json:"allocating,omitempty"`

	// allocated is what pods request that are assigned to a node and not finished.
	// +optional
	Allocated ResourceList `json:"allocated,omitempty"`

	// allocatableModelings count the nodes of each grade of spec.resourceModels by
	// what they have left for further pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	AllocatableModelings []AllocatableModeling `json:"allocatableModelings,omitempty"`
}

// AllocatableModeling counts the nodes of a grade.
type AllocatableModeling struct {
	// grade is that of the resource model.
	Grade int32 `json:"grade"`

	// count is the number of nodes of the grade.
	Count int32 `json:"count"`
}

// ResourceList maps resources, such as cpu, to quantities.
type ResourceList map[string]resource.Quantity

// ClusterConnectionList is a list of ClusterConnections.
//
// +kubebuilder:object:root=true
type ClusterConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ClusterConnections.
	Items []ClusterConnection `json:"items"`
}
