// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Klusterlet makes the cluster on which it is created a member of a hub: the
// operator installs the agents, which register with the hub in the Secret
// bootstrap-hub-kubeconfig in spec.namespace. Deleting the Klusterlet removes
// the agents and everything they applied.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.clusterName`
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Joined",type=string,JSONPath=`.status.conditions[?(@.type=="Joined")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Joined")].reason`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.deployOption.mode`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Klusterlet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the agents.
	Spec KlusterletSpec `json:"spec,omitempty"`

	// status is the observed state of the agents and the progress of the join.
	Status KlusterletStatus `json:"status,omitempty"`
}

// KlusterletSpec is the desired state of a member's agents.
type KlusterletSpec struct {
	// namespace is the namespace of the agents on the member. It must start with
	// open-cluster-management- and have at most 57 characters. Changing it moves
	// the agents; the old namespace is deleted once they are running in the new
	// one. In mode Hosted the agents themselves run in the namespace named after
	// the Klusterlet. Default: open-cluster-management-agent.
	// +optional
	// +kubebuilder:validation:MaxLength=57
	// +kubebuilder:validation:Pattern=`^open-cluster-management-[-a-z0-9]*[a-z0-9]$`
	Namespace string `json:"namespace,omitempty"`

	// registrationImagePullSpec is the image of the registration agent. Default:
	// the image of the operator. Mode Singleton uses imagePullSpec instead.
	// +optional
	RegistrationImagePullSpec string `json:"registrationImagePullSpec,omitempty"`

	// workImagePullSpec is the image of the work agent. Default: the image of the
	// operator. Mode Singleton uses imagePullSpec instead.
	// +optional
	WorkImagePullSpec string `json:"workImagePullSpec,omitempty"`

	// imagePullSpec is the image of the one agent in mode Singleton. Default: the
	// image of the operator.
	// +optional
	ImagePullSpec string `json:"imagePullSpec,omitempty"`

	// clusterName is the name of the ManagedCluster on the hub, a DNS label of at
	// most 63 characters. Default: the name in hub-kubeconfig-secret, or a random
	// UUID at the first registration.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterName string `json:"clusterName,omitempty"`

	// externalServerURLs are the addresses of this cluster's API server for
	// clients outside the cluster; they become managedClusterClientConfigs of the
	// ManagedCluster. Default: none.
	// +optional
	ExternalServerURLs []ServerURL `json:"externalServerURLs,omitempty"`

	// nodePlacement controls which nodes the agents are scheduled to. Default:
	// any.
	// +optional
	NodePlacement NodePlacement `json:"nodePlacement,omitempty"`

	// deployOption is where the agents run, and in how many Deployments. Default:
	// mode Default.
	// +optional
	DeployOption KlusterletDeployOption `json:"deployOption,omitempty"`

	// registrationConfiguration configures the registration agent.
	// +optional
	RegistrationConfiguration *RegistrationConfiguration `json:"registrationConfiguration,omitempty"`

	// workConfiguration configures the work agent.
	// +optional
	WorkConfiguration *WorkAgentConfiguration `json:"workConfiguration,omitempty"`

	// hubApiServerHostAlias is added to /etc/hosts of the agents, for a hub API
	// server whose host name does not resolve. Default: none.
	// +optional
	HubAPIServerHostAlias *HubAPIServerHostAlias `json:"hubApiServerHostAlias,omitempty"`

	// resourceRequirement sets the resource requests and limits of the agents.
	// Default: type Default.
	// +optional
	ResourceRequirement *ResourceRequirement `json:"resourceRequirement,omitempty"`

	// priorityClassName is the PriorityClass of the agents' pods; it must exist.
	// Default: none.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// ServerURL is an address of an API server.
type ServerURL struct {
	// url is the address of the API server. It must start with https://.
	// +required
	// +kubebuilder:validation:Required
	URL string `json:"url"`

	// caBundle contains the PEM-encoded CA certificates that verify the API
	// server's certificate. Default: those of the cluster's own kubeconfig.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// HubAPIServerHostAlias maps the host name of the hub's API server to an
// address.
type HubAPIServerHostAlias struct {
	// ip is the IPv4 address.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$`
	IP string `json:"ip"`

	// hostname is the host name, as in bootstrap-hub-kubeconfig.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])$`
	Hostname string `json:"hostname"`
}

// KlusterletDeployOption is where the agents run, and in how many Deployments.
type KlusterletDeployOption struct {
	// mode is Default (the registration and work agents are two Deployments),
	// Singleton (one Deployment), Hosted or SingletonHosted (the same, but on a
	// different cluster than the member, with the Secret
	// external-managed-kubeconfig). It is immutable. Default: empty, which means
	// Default.
	// +optional
	Mode InstallMode `json:"mode"`
}

// RegistrationConfiguration configures the registration agent.
type RegistrationConfiguration struct {
	// clientCertExpirationSeconds is the lifetime in seconds that the agent
	// requests for its client certificate; the signer may issue a shorter one, and
	// Kubernetes has a minimum of 600. Default: 0, the signer's lifetime.
	// +optional
	ClientCertExpirationSeconds int32 `json:"clientCertExpirationSeconds,omitempty"`

	// featureGates turn features of the registration agent on or off. Features
	// that are not listed keep their defaults.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// clusterAnnotations are added to the ManagedCluster when the agent creates
	// it. Keys must start with agent.open-cluster-management.io. Default: none.
	// +optional
	ClusterAnnotations map[string]string `json:"clusterAnnotations,omitempty"`

	// clusterLabels are put on the ManagedCluster when the agent creates it, and kept
	// there as far as the hub lets its agents change labels.
	// Default: none.
	// +optional
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`

	// kubeAPIQPS is the sustained rate of requests per second that the agent may
	// send to an API server. Default: 50.
	// +optional
	// +kubebuilder:default=50
	KubeAPIQPS int32 `json:"kubeAPIQPS,omitempty"`

	// kubeAPIBurst is the number of requests that the agent may send in a burst.
	// Default: 100.
	// +optional
	// +kubebuilder:default=100
	KubeAPIBurst int32 `json:"kubeAPIBurst,omitempty"`

	// bootstrapKubeConfigs names several hubs that the agent may register with.
	// Needs feature gate MultipleHubs. Default: type None, the one hub in the
	// Secret bootstrap-hub-kubeconfig.
	// +optional
	BootstrapKubeConfigs BootstrapKubeConfigs `json:"bootstrapKubeConfigs,omitempty"`

	// registrationDriver is how the agent authenticates to the hub. Default:
	// authType csr.
	// +optional
	RegistrationDriver RegistrationDriver `json:"registrationDriver,omitempty"`

	// addOnKubeClientRegistrationDriver is how add-ons authenticate to the hub.
	// Default: authType csr.
	// +optional
	AddOnKubeClientRegistrationDriver *AddOnRegistrationDriver `json:"addOnKubeClientRegistrationDriver,omitempty"`

	// clusterClaimConfiguration limits the claims that are reported to the hub.
	// Default: 20 claims in addition to those with reserved names.
	// +optional
	ClusterClaimConfiguration *ClusterClaimConfiguration `json:"clusterClaimConfiguration,omitempty"`
}

// ClusterClaimConfiguration limits the claims that are reported to the hub.
type ClusterClaimConfiguration struct {
	// maxCustomClusterClaims is the number of ClusterClaims that are reported to
	// the hub in addition to those with reserved names; the first ones by name are
	// taken. Default: 20.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:default=20
	MaxCustomClusterClaims int32 `json:"maxCustomClusterClaims"`

	// reservedClusterClaimSuffixes make the names of claims that end with one of
	// them reserved. Up to 10 suffixes of 1 to 64 characters. Default: none.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	ReservedClusterClaimSuffixes []string `json:"reservedClusterClaimSuffixes,omitempty"`
}

// RegistrationDriver is how an agent authenticates to the hub.
type RegistrationDriver struct {
	// authType is csr (client certificate from a certificate signing request),
	// awsirsa (AWS IAM role for a service account) or grpc (through the hub's gRPC
	// server). Default: csr.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=csr;awsirsa;grpc
	// +kubebuilder:default=csr
	AuthType string `json:"authType,omitempty"`

	// awsIrsa contains the options for authType awsirsa.
	AWSIRSA *AWSIRSA `json:"awsIrsa,omitempty"`
}

// AWSIRSA names the EKS clusters between which an agent authenticates with AWS
// IAM roles.
type AWSIRSA struct {
	// hubClusterArn is the ARN of the hub, such as
	// arn:aws:eks:us-west-2:123456789012:cluster/hub.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:Pattern=`^arn:aws:eks:([a-zA-Z0-9-]+):(\d{12}):cluster/([a-zA-Z0-9-]+)$`
	HubClusterARN string `json:"hubClusterArn"`

	// managedClusterArn is the ARN of the member.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:Pattern=`^arn:aws:eks:([a-zA-Z0-9-]+):(\d{12}):cluster/([a-zA-Z0-9-]+)$`
	ManagedClusterARN string `json:"managedClusterArn"`
}

// AddOnRegistrationDriver is how add-ons authenticate to the hub.
type AddOnRegistrationDriver struct {
	// authType is csr (client certificate from a certificate signing request) or
	// token (service account token). Default: csr.
	// +optional
	// +kubebuilder:validation:Enum=csr;token
	AuthType string `json:"authType,omitempty"`

	// token contains the options for authType token.
	// +optional
	Token *TokenConfig `json:"token,omitempty"`
}

// TokenConfig configures service account tokens.
type TokenConfig struct {
	// expirationSeconds is the requested lifetime of a token in seconds; the API
	// server may issue a shorter one. Default: 0, the API server's lifetime.
	// +optional
	ExpirationSeconds int64 `json:"expirationSeconds,omitempty"`
}

// BootstrapKubeConfigs names the hubs that an agent may register with.
type BootstrapKubeConfigs struct {
	// type is None for the one hub in the Secret bootstrap-hub-kubeconfig, or
	// LocalSecrets for the hubs in localSecretsConfig. Default: None.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=None;LocalSecrets
	// +kubebuilder:default=None
	Type BootstrapKubeConfigsType `json:"type,omitempty"`

	// localSecretsConfig names the hubs; used with type LocalSecrets.
	// +optional
	LocalSecretsConfig *LocalSecretsConfig `json:"localSecretsConfig,omitempty"`
}

// BootstrapKubeConfigsType is where an agent's hubs are named.
type BootstrapKubeConfigsType string

const (
	// BootstrapKubeConfigsTypeNone is the one hub in the Secret
	// bootstrap-hub-kubeconfig.
	BootstrapKubeConfigsTypeNone BootstrapKubeConfigsType = "None"
	// BootstrapKubeConfigsTypeLocalSecrets is hubs in several Secrets.
	BootstrapKubeConfigsTypeLocalSecrets BootstrapKubeConfigsType = "LocalSecrets"
)

// LocalSecretsConfig names the Secrets of the hubs that an agent may register
// with.
type LocalSecretsConfig struct {
	// kubeConfigSecrets name Secrets in the agents' namespace, each with a
	// kubeconfig for one hub under the key kubeconfig. The agent takes the first
	// hub that accepts it. List two or more.
	// +required
	// +kubebuilder:validation:Required
	KubeConfigSecrets []KubeConfigSecret `json:"kubeConfigSecrets"`

	// hubConnectionTimeoutSeconds is the time in seconds after which the agent
	// gives up on a hub that it cannot reach and tries the next one. At least 180.
	// Default: 600.
	// +optional
	// +kubebuilder:validation:Minimum=180
	// +kubebuilder:default=600
	HubConnectionTimeoutSeconds int32 `json:"hubConnectionTimeoutSeconds,omitempty"`
}

// KubeConfigSecret names a secret with a kubeconfig.
type KubeConfigSecret struct {
	// name is the name of the secret.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`
}

// WorkAgentConfiguration configures the work agent.
type WorkAgentConfiguration struct {
	// featureGates turn features of the work agent on or off. Features that are
	// not listed keep their defaults.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// kubeAPIQPS is the sustained rate of requests per second that the agent may
	// send to the member's API server. Default: 50.
	// +optional
	// +kubebuilder:default=50
	KubeAPIQPS int32 `json:"kubeAPIQPS,omitempty"`

	// kubeAPIBurst is the number of requests that the agent may send to the
	// member's API server in a burst. Default: 100.
	// +optional
	// +kubebuilder:default=100
	KubeAPIBurst int32 `json:"kubeAPIBurst,omitempty"`

	// hubKubeAPIQPS is the sustained rate of requests per second that the agent
	// may send to the hub's API server. Default: 50.
	// +optional
	// +kubebuilder:default=50
	HubKubeAPIQPS int32 `json:"hubKubeAPIQPS,omitempty"`

	// hubKubeAPIBurst is the number of requests that the agent may send to the
	// hub's API server in a burst. Default: 100.
	// +optional
	// +kubebuilder:default=100
	HubKubeAPIBurst int32 `json:"hubKubeAPIBurst,omitempty"`

	// appliedManifestWorkEvictionGracePeriod is how long the objects of a
	// ManifestWork are kept after the agent no longer finds it on its hub, in
	// hours, minutes and seconds, such as 1h30m. 100 years (876000h) or more means
	// forever. Default: 60m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	AppliedManifestWorkEvictionGracePeriod *metav1.Duration `json:"appliedManifestWorkEvictionGracePeriod,omitempty"`

	// statusSyncInterval is the interval at which the applied objects are polled
	// for status feedback, in hours, minutes and seconds, such as 30s. Default:
	// 10s, or 60s if the agent has one replica.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	StatusSyncInterval *metav1.Duration `json:"statusSyncInterval,omitempty"`
}

// KlusterletStatus is the observed state of the agents and the progress of the
// join.
type KlusterletStatus struct {
	// observedGeneration is the metadata.generation that the operator last
	// reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions report what works and what does not; see
	// docs/spec/operator/klusterlet.md.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`

	// generations are the generations of the Deployments that the operator
	// installed.
	// +optional
	Generations []GenerationStatus `json:"generations,omitempty"`

	// relatedResources are the objects that the operator installed.
	// +optional
	RelatedResources []RelatedResourceMeta `json:"relatedResources,omitempty"`
}

// KlusterletList is a list of Klusterlets.
//
// +kubebuilder:object:root=true
type KlusterletList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Klusterlets.
	Items []Klusterlet `json:"items"`
}
