// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Klusterlet makes the cluster it is created in a member of a hub: the operator
// installs the agents, which register with the hub that the secret
// bootstrap-hub-kubeconfig in spec.namespace leads to. Deleting the Klusterlet
// removes the agents and what they applied.
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

	// spec is how the agents shall be.
	Spec KlusterletSpec `json:"spec,omitempty"`

	// status is how the agents are, and how far they are with joining.
	Status KlusterletStatus `json:"status,omitempty"`
}

// KlusterletSpec is how the agents of a member shall be.
type KlusterletSpec struct {
	// namespace is the namespace of the agents on the member. It has to begin with
	// open-cluster-management- and may have up to 57 characters. After a change the
	// agents move, and the earlier namespace is deleted once they work in the new
	// one. In mode Hosted the agents themselves run in the namespace with the name
	// of the Klusterlet. Default: open-cluster-management-agent.
	// +optional
	// +kubebuilder:validation:MaxLength=57
	// +kubebuilder:validation:Pattern=`^open-cluster-management-[-a-z0-9]*[a-z0-9]$`
	Namespace string `json:"namespace,omitempty"`

	// registrationImagePullSpec is the image of the registration agent. Default:
	// the image of the operator. In mode Singleton imagePullSpec counts.
	// +optional
	RegistrationImagePullSpec string `json:"registrationImagePullSpec,omitempty"`

	// workImagePullSpec is the image of the work agent. Default: the image of the
	// operator. In mode Singleton imagePullSpec counts.
	// +optional
	WorkImagePullSpec string `json:"workImagePullSpec,omitempty"`

	// imagePullSpec is the image of the one agent in mode Singleton. Default: the
	// image of the operator.
	// +optional
	ImagePullSpec string `json:"imagePullSpec,omitempty"`

	// clusterName is the name of the ManagedCluster on the hub, a DNS label of at
	// most 63 characters. Default: the name that hub-kubeconfig-secret has, or a
	// random UUID at the first registration.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	ClusterName string `json:"clusterName,omitempty"`

	// externalServerURLs tell the hub how to reach this cluster's API server; they
	// become managedClusterClientConfigs of the ManagedCluster. Default: none.
	// +optional
	ExternalServerURLs []ServerURL `json:"externalServerURLs,omitempty"`

	// nodePlacement tells which nodes the agents may run on. Default: any.
	// +optional
	NodePlacement NodePlacement `json:"nodePlacement,omitempty"`

	// deployOption tells how the agents are laid out. Default: mode Default.
	// +optional
	DeployOption KlusterletDeployOption `json:"deployOption,omitempty"`

	// registrationConfiguration has the options of the registration agent.
	// +optional
	RegistrationConfiguration *RegistrationConfiguration `json:"registrationConfiguration,omitempty"`

	// workConfiguration has the options of the work agent.
	// +optional
	WorkConfiguration *WorkAgentConfiguration `json:"workConfiguration,omitempty"`

	// hubApiServerHostAlias is put into /etc/hosts of the agents, where the host
	// name of the hub's API server is not in the DNS. Default: none.
	// +optional
	HubAPIServerHostAlias *HubAPIServerHostAlias `json:"hubApiServerHostAlias,omitempty"`

	// resourceRequirement tells which resources the agents ask for. Default: type
	// Default.
	// +optional
	ResourceRequirement *ResourceRequirement `json:"resourceRequirement,omitempty"`

	// priorityClassName is the PriorityClass of the agents' pods; it has to exist.
	// Default: none.
	// +optional
	PriorityClassName string `json:"priorityClassName,omitempty"`
}

// ServerURL tells how to reach an API server.
type ServerURL struct {
	// url is the address of the API server. It has to begin with https://.
	// +required
	// +kubebuilder:validation:Required
	URL string `json:"url"`

	// caBundle has the PEM encoded certificates that the API server's certificate
	// is verified with. Default: those of the cluster's own kubeconfig.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// HubAPIServerHostAlias is the address of the hub's API server under a name.
type HubAPIServerHostAlias struct {
	// ip is the IPv4 address.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$`
	IP string `json:"ip"`

	// hostname is the host name, as it is in bootstrap-hub-kubeconfig.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])$`
	Hostname string `json:"hostname"`
}

// KlusterletDeployOption tells how the agents are laid out.
type KlusterletDeployOption struct {
	// mode is Default (registration and work agent are two Deployments), Singleton
	// (one Deployment), Hosted or SingletonHosted (the same on another cluster
	// than the member, with the secret external-managed-kubeconfig). It must not be
	// changed. Default: empty, which means Default.
	// +optional
	Mode InstallMode `json:"mode"`
}

// RegistrationConfiguration has the options of the registration agent.
type RegistrationConfiguration struct {
	// clientCertExpirationSeconds is the lifetime in seconds that the agent asks
	// for its client certificate; the signer may shorten it, and Kubernetes has a
	// minimum of 600. Default: 0, the signer's lifetime.
	// +optional
	ClientCertExpirationSeconds int32 `json:"clientCertExpirationSeconds,omitempty"`

	// featureGates turn features of the registration agent on or off. Default:
	// each feature's own.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// clusterAnnotations are put onto the ManagedCluster when the agent creates
	// it. Keys have to begin with agent.open-cluster-management.io. Default: none.
	// +optional
	ClusterAnnotations map[string]string `json:"clusterAnnotations,omitempty"`

	// clusterLabels are put onto the ManagedCluster when the agent creates it.
	// Default: none.
	// +optional
	ClusterLabels map[string]string `json:"clusterLabels,omitempty"`

	// kubeAPIQPS is the number of requests per second that the agent may make to
	// an API server in the long run. Default: 50.
	// +optional
	// +kubebuilder:default=50
	KubeAPIQPS int32 `json:"kubeAPIQPS,omitempty"`

	// kubeAPIBurst is the number of requests that the agent may make at once.
	// Default: 100.
	// +optional
	// +kubebuilder:default=100
	KubeAPIBurst int32 `json:"kubeAPIBurst,omitempty"`

	// bootstrapKubeConfigs names several hubs that the agent may register with.
	// Needs feature gate MultipleHubs. Default: type None, the one hub of secret
	// bootstrap-hub-kubeconfig.
	// +optional
	BootstrapKubeConfigs BootstrapKubeConfigs `json:"bootstrapKubeConfigs,omitempty"`

	// registrationDriver tells how the agent authenticates to the hub. Default:
	// authType csr.
	// +optional
	RegistrationDriver RegistrationDriver `json:"registrationDriver,omitempty"`

	// addOnKubeClientRegistrationDriver tells how add-ons authenticate to the hub.
	// Default: authType csr.
	// +optional
	AddOnKubeClientRegistrationDriver *AddOnRegistrationDriver `json:"addOnKubeClientRegistrationDriver,omitempty"`

	// clusterClaimConfiguration limits the claims that are told to the hub.
	// Default: 20 claims besides those with reserved names.
	// +optional
	ClusterClaimConfiguration *ClusterClaimConfiguration `json:"clusterClaimConfiguration,omitempty"`
}

// ClusterClaimConfiguration limits the claims that are told to the hub.
type ClusterClaimConfiguration struct {
	// maxCustomClusterClaims is the number of ClusterClaims that are told to the
	// hub besides those with reserved names; the first ones in the order of names
	// are taken. Default: 20.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:default=20
	MaxCustomClusterClaims int32 `json:"maxCustomClusterClaims"`

	// reservedClusterClaimSuffixes make the names of claims that end with one of
	// them reserved ones. Up to 10 suffixes of 1 to 64 characters. Default: none.
	// +optional
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	ReservedClusterClaimSuffixes []string `json:"reservedClusterClaimSuffixes,omitempty"`
}

// RegistrationDriver tells how an agent authenticates to the hub.
type RegistrationDriver struct {
	// authType is csr (client certificate by certificate signing request), awsirsa
	// (AWS role of a service account) or grpc (by the hub's gRPC server). Default:
	// csr.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=csr;awsirsa;grpc
	// +kubebuilder:default=csr
	AuthType string `json:"authType,omitempty"`

	// awsIrsa has the options of authType awsirsa.
	AWSIRSA *AWSIRSA `json:"awsIrsa,omitempty"`
}

// AWSIRSA has the EKS clusters between which an agent authenticates by AWS roles.
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

// AddOnRegistrationDriver tells how add-ons authenticate to the hub.
type AddOnRegistrationDriver struct {
	// authType is csr (client certificate by certificate signing request) or token
	// (service account token). Default: csr.
	// +optional
	// +kubebuilder:validation:Enum=csr;token
	AuthType string `json:"authType,omitempty"`

	// token has the options of authType token.
	// +optional
	Token *TokenConfig `json:"token,omitempty"`
}

// TokenConfig has the options of service account tokens.
type TokenConfig struct {
	// expirationSeconds is the lifetime in seconds that is asked for a token; the
	// API server may shorten it. Default: 0, the API server's lifetime.
	// +optional
	ExpirationSeconds int64 `json:"expirationSeconds,omitempty"`
}

// BootstrapKubeConfigs names the hubs that an agent may register with.
type BootstrapKubeConfigs struct {
	// type is None for the one hub of secret bootstrap-hub-kubeconfig, or
	// LocalSecrets for the hubs of localSecretsConfig. Default: None.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=None;LocalSecrets
	// +kubebuilder:default=None
	Type BootstrapKubeConfigsType `json:"type,omitempty"`

	// localSecretsConfig names the hubs, with type LocalSecrets.
	// +optional
	LocalSecretsConfig *LocalSecretsConfig `json:"localSecretsConfig,omitempty"`
}

// BootstrapKubeConfigsType tells where an agent's hubs are named.
type BootstrapKubeConfigsType string

const (
	// BootstrapKubeConfigsTypeNone is the one hub of secret bootstrap-hub-kubeconfig.
	BootstrapKubeConfigsTypeNone BootstrapKubeConfigsType = "None"
	// BootstrapKubeConfigsTypeLocalSecrets is the hubs of several secrets.
	BootstrapKubeConfigsTypeLocalSecrets BootstrapKubeConfigsType = "LocalSecrets"
)

// LocalSecretsConfig names the hubs that an agent may register with by secrets.
type LocalSecretsConfig struct {
	// kubeConfigSecrets name secrets in the namespace of the agents, each with a
	// kubeconfig for one hub under the key kubeconfig. The agent takes the first
	// hub that lets it in. There should be two or more.
	// +required
	// +kubebuilder:validation:Required
	KubeConfigSecrets []KubeConfigSecret `json:"kubeConfigSecrets"`

	// hubConnectionTimeoutSeconds is the time in seconds after which the agent
	// leaves a hub that it does not reach, and takes the next one. At least 180.
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

// WorkAgentConfiguration has the options of the work agent.
type WorkAgentConfiguration struct {
	// featureGates turn features of the work agent on or off. Default: each
	// feature's own.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// kubeAPIQPS is the number of requests per second that the agent may make to
	// the member's API server in the long run. Default: 50.
	// +optional
	// +kubebuilder:default=50
	KubeAPIQPS int32 `json:"kubeAPIQPS,omitempty"`

	// kubeAPIBurst is the number of requests that the agent may make to the
	// member's API server at once. Default: 100.
	// +optional
	// +kubebuilder:default=100
	KubeAPIBurst int32 `json:"kubeAPIBurst,omitempty"`

	// hubKubeAPIQPS is the number of requests per second that the agent may make
	// to the hub's API server in the long run. Default: 50.
	// +optional
	// +kubebuilder:default=50
	HubKubeAPIQPS int32 `json:"hubKubeAPIQPS,omitempty"`

	// hubKubeAPIBurst is the number of requests that the agent may make to the
	// hub's API server at once. Default: 100.
	// +optional
	// +kubebuilder:default=100
	HubKubeAPIBurst int32 `json:"hubKubeAPIBurst,omitempty"`

	// appliedManifestWorkEvictionGracePeriod is the time for which objects of a
	// ManifestWork stay that the agent no longer finds on its hub, written in
	// hours, minutes and seconds, such as 1h30m. 100 years (876000h) or more means
	// for ever. Default: 60m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	AppliedManifestWorkEvictionGracePeriod *metav1.Duration `json:"appliedManifestWorkEvictionGracePeriod,omitempty"`

	// statusSyncInterval is the time between two looks at the applied objects for
	// feedback that is polled, written in hours, minutes and seconds, such as 30s.
	// Default: 10s, and 60s where the agent has one replica.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(s|m|h))+$`
	StatusSyncInterval *metav1.Duration `json:"statusSyncInterval,omitempty"`
}

// KlusterletStatus is how the agents are, and how far they are with joining.
type KlusterletStatus struct {
	// observedGeneration is metadata.generation of the spec that the operator has
	// last worked on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions tell what works and what does not; see
	// docs/spec/operator/klusterlet.md.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`

	// generations are those of the Deployments that the operator installed.
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
