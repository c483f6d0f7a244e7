// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterManager turns the cluster on which it is created into a hub: the
// operator installs the hub's controllers and webhooks in the namespace
// open-cluster-management-hub. Deleting the ClusterManager removes them, once
// no member is left.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Progressing",type=string,JSONPath=`.status.conditions[?(@.type=="Progressing")].status`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="HubRegistrationDegraded")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.deployOption.mode`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterManager struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the hub. Default: deployOption.mode Default.
	// +kubebuilder:default={deployOption: {mode: Default}}
	Spec ClusterManagerSpec `json:"spec"`

	// status is the observed state of the hub.
	// +optional
	Status ClusterManagerStatus `json:"status,omitempty"`
}

// ClusterManagerSpec is the desired state of a hub.
type ClusterManagerSpec struct {
	// registrationImagePullSpec is the image of the registration controller and
	// webhook. Default: quay.io/open-cluster-management/registration, which
	// stands for the image of the operator.
	// +optional
	// +kubebuilder:default=quay.io/open-cluster-management/registration
	RegistrationImagePullSpec string `json:"registrationImagePullSpec,omitempty"`

	// workImagePullSpec is the image of the work webhook and controller. Default:
	// quay.io/open-cluster-management/work, which stands for the image of the
	// operator.
	// +optional
	// +kubebuilder:default=quay.io/open-cluster-management/work
	WorkImagePullSpec string `json:"workImagePullSpec,omitempty"`

	// placementImagePullSpec is the image of the placement controller. Default:
	// quay.io/open-cluster-management/placement, which stands for the image of the
	// operator.
	// +optional
	// +kubebuilder:default=quay.io/open-cluster-management/placement
	PlacementImagePullSpec string `json:"placementImagePullSpec,omitempty"`

	// addOnManagerImagePullSpec is the image of the add-on manager. Default:
	// quay.io/open-cluster-management/addon-manager, which stands for the image of
	// the operator. This version installs no add-on manager.
	// +optional
	// +kubebuilder:default=quay.io/open-cluster-management/addon-manager
	AddOnManagerImagePullSpec string `json:"addOnManagerImagePullSpec,omitempty"`

	// nodePlacement controls which nodes the hub's pods are scheduled to. Default:
	// any.
	// +optional
	NodePlacement NodePlacement `json:"nodePlacement,omitempty"`

	// deployOption is where the hub's components run. Default: mode Default.
	// +optional
	// +kubebuilder:default={mode: Default}
	DeployOption ClusterManagerDeployOption `json:"deployOption,omitempty"`

	// registrationConfiguration configures registration.
	// +optional
	RegistrationConfiguration *RegistrationHubConfiguration `json:"registrationConfiguration,omitempty"`

	// workConfiguration configures work. Default: workDriver kube.
	// +optional
	// +kubebuilder:default={workDriver: kube}
	WorkConfiguration *WorkConfiguration `json:"workConfiguration,omitempty"`

	// addOnManagerConfiguration configures the add-on manager.
	// +optional
	AddOnManagerConfiguration *AddOnManagerConfiguration `json:"addOnManagerConfiguration,omitempty"`

	// placementConfiguration configures placement.
	// +optional
	PlacementConfiguration *PlacementConfiguration `json:"placementConfiguration,omitempty"`

	// serverConfiguration configures the gRPC server, which runs if
	// registrationDrivers has an entry with authType grpc.
	// +optional
	ServerConfiguration *ServerConfiguration `json:"serverConfiguration,omitempty"`

	// resourceRequirement sets the resource requests and limits of the hub's pods.
	// Default: type Default.
	// +optional
	ResourceRequirement *ResourceRequirement `json:"resourceRequirement,omitempty"`
}

// ClusterManagerDeployOption is where the hub's components run.
type ClusterManagerDeployOption struct {
	// mode is Default (on the hub itself) or Hosted (on another cluster, in the
	// namespace named after the ClusterManager). It is immutable. Default:
	// Default.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=Default;Hosted
	// +kubebuilder:default=Default
	Mode InstallMode `json:"mode,omitempty"`

	// default contains the options for mode Default.
	// +optional
	Default *DefaultClusterManagerConfiguration `json:"default,omitempty"`

	// hosted contains the options for mode Hosted.
	// +optional
	Hosted *HostedClusterManagerConfiguration `json:"hosted,omitempty"`
}

// DefaultClusterManagerConfiguration contains the options for mode Default.
type DefaultClusterManagerConfiguration struct {
	// registrationWebhookConfiguration configures the registration webhook.
	// +optional
	RegistrationWebhookConfiguration DefaultWebhookConfiguration `json:"registrationWebhookConfiguration,omitempty"`

	// workWebhookConfiguration configures the work webhook.
	// +optional
	WorkWebhookConfiguration DefaultWebhookConfiguration `json:"workWebhookConfiguration,omitempty"`

	// addonWebhookConfiguration configures the add-on webhook. Its port is always
	// 9443.
	// +optional
	AddonWebhookConfiguration DefaultWebhookConfiguration `json:"addonWebhookConfiguration,omitempty"`
}

// HostedClusterManagerConfiguration contains the options for mode Hosted.
type HostedClusterManagerConfiguration struct {
	// registrationWebhookConfiguration configures the registration webhook.
	// +optional
	RegistrationWebhookConfiguration HostedWebhookConfiguration `json:"registrationWebhookConfiguration,omitempty"`

	// workWebhookConfiguration configures the work webhook.
	// +optional
	WorkWebhookConfiguration HostedWebhookConfiguration `json:"workWebhookConfiguration,omitempty"`
}

// DefaultWebhookConfiguration configures a webhook in mode Default.
type DefaultWebhookConfiguration struct {
	// bindConfiguration is what the webhook listens on. Default: port 9443,
	// healthProbePort 8000, metricsPort 8080, no host network.
	BindConfiguration *BindConfiguration `json:"bindConfiguration,omitempty"`
}

// HostedWebhookConfiguration configures a webhook in mode Hosted.
type HostedWebhookConfiguration struct {
	// address is the IP address or host name at which the hub's API server reaches
	// the webhook: for example that of a Service of type NodePort or LoadBalancer
	// on the cluster where the webhook runs.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])$`
	Address string `json:"address"`

	// port is the port at which the hub's API server reaches the webhook, at most
	// 65535. Default: 443.
	// +optional
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=443
	Port int32 `json:"port,omitempty"`

	// bindConfiguration is what the webhook listens on. Default: port 9443,
	// healthProbePort 8000, metricsPort 8080, no host network.
	BindConfiguration *BindConfiguration `json:"bindConfiguration,omitempty"`
}

// BindConfiguration is what a webhook listens on.
type BindConfiguration struct {
	// port is the port of the webhook itself, at most 65535. Default: 9443.
	// +optional
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=9443
	Port int32 `json:"port,omitempty"`

	// healthProbePort is the port of the health probes, at most 65535. Default:
	// 8000.
	// +optional
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=8000
	HealthProbePort int32 `json:"healthProbePort"`

	// metricsPort is the port of the metrics, at most 65535. Default: 8080.
	// +optional
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=8080
	MetricsPort int32 `json:"metricsPort"`

	// hostNetwork makes the webhook listen on its node's addresses, for clusters
	// whose API server cannot reach pods. Default: false.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
}

// RegistrationHubConfiguration configures registration on the hub.
type RegistrationHubConfiguration struct {
	// autoApproveUsers are the users whose clusters are approved and accepted
	// automatically. Needs feature gate ManagedClusterAutoApproval. Default: none.
	// +optional
	AutoApproveUsers []string `json:"autoApproveUsers,omitempty"`

	// featureGates turn features of registration on or off. Features that are not
	// listed keep their defaults.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// registrationDrivers are the ways in which agents may authenticate; one entry
	// for each authType. Default: csr.
	// +optional
	// +listType=map
	// +listMapKey=authType
	RegistrationDrivers []RegistrationDriverHub `json:"registrationDrivers,omitempty"`

	// importerConfiguration configures the importer, which installs agents on
	// clusters created by Cluster API. Needs feature gate ClusterImporter.
	// +optional
	ImporterConfiguration *ImporterConfiguration `json:"importerConfiguration,omitempty"`
}

// ImporterConfiguration configures the importer.
type ImporterConfiguration struct {
	// renderers name the steps that modify the agent's objects before they are
	// installed, in this order. Default: the built-in ones.
	// +optional
	Renderers []string `json:"renderers,omitempty"`
}

// RegistrationDriverHub is one way in which agents may authenticate.
type RegistrationDriverHub struct {
	// authType is csr (client certificate from a certificate signing request),
	// awsirsa (AWS IAM role for a service account) or grpc (through the hub's gRPC
	// server). Default: csr.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=csr;awsirsa;grpc
	// +kubebuilder:default=csr
	AuthType string `json:"authType,omitempty"`

	// csr contains the options for authType csr.
	// +optional
	CSR *CSRConfig `json:"csr,omitempty"`

	// awsirsa contains the options for authType awsirsa.
	// +optional
	AWSIRSA *AWSIRSAConfig `json:"awsirsa,omitempty"`

	// grpc contains the options for authType grpc.
	// +optional
	GRPC *GRPCRegistrationConfig `json:"grpc,omitempty"`
}

// CSRConfig configures registration through certificate signing requests.
type CSRConfig struct {
	// autoApprovedIdentities are the users whose clusters are approved and
	// accepted automatically, in addition to autoApproveUsers. Needs feature gate
	// ManagedClusterAutoApproval. Default: none.
	// +optional
	AutoApprovedIdentities []string `json:"autoApprovedIdentities,omitempty"`
}

// AWSIRSAConfig configures registration with AWS IAM roles.
type AWSIRSAConfig struct {
	// hubClusterArn is the ARN of the hub, such as
	// arn:aws:eks:us-west-2:123456789012:cluster/hub.
	// +optional
	// +kubebuilder:validation:Pattern=`^arn:aws:eks:([a-zA-Z0-9-]+):(\d{12}):cluster/([a-zA-Z0-9-]+)$`
	HubClusterARN string `json:"hubClusterArn,omitempty"`

	// autoApprovedIdentities are regular expressions; clusters whose ARN matches
	// one are accepted automatically. Needs feature gate
	// ManagedClusterAutoApproval. Default: none.
	// +optional
	AutoApprovedIdentities []string `json:"autoApprovedIdentities,omitempty"`

	// tags are added to the resources created in AWS, each as key=value. Default:
	// none.
	// +optional
	Tags []string `json:"tags,omitempty"`
}

// GRPCRegistrationConfig configures registration over gRPC.
type GRPCRegistrationConfig struct {
	// autoApprovedIdentities are the users whose clusters are approved and
	// accepted automatically. Needs feature gate ManagedClusterAutoApproval.
	// Default: none.
	// +optional
	AutoApprovedIdentities []string `json:"autoApprovedIdentities,omitempty"`
}

// WorkConfiguration configures work on the hub.
type WorkConfiguration struct {
	// featureGates turn features of work on or off. Features that are not listed
	// keep their defaults.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// workDriver is how ManifestWorks are delivered to members: kube (agents watch
	// the hub's API server), mqtt (through an MQTT broker) or grpc (through a gRPC
	// server). The latter two need the Secret work-driver-config and feature gate
	// CloudEventsDrivers. Default: kube.
	// +optional
	// +kubebuilder:validation:Enum=kube;mqtt;grpc
	// +kubebuilder:default=kube
	WorkDriver WorkDriverType `json:"workDriver,omitempty"`
}

// WorkDriverType is how ManifestWorks are delivered to members.
type WorkDriverType string

const (
	// WorkDriverTypeKube lets agents watch the hub's API server.
	WorkDriverTypeKube WorkDriverType = "kube"
	// WorkDriverTypeMQTT uses an MQTT broker.
	WorkDriverTypeMQTT WorkDriverType = "mqtt"
	// WorkDriverTypeGRPC uses a gRPC server.
	WorkDriverTypeGRPC WorkDriverType = "grpc"
)

// AddOnManagerConfiguration configures the add-on manager.
type AddOnManagerConfiguration struct {
	// featureGates turn features of the add-on manager on or off. Features that
	// are not listed keep their defaults.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`
}

// PlacementConfiguration configures placement.
type PlacementConfiguration struct {
	// featureGates turn features of placement on or off. Features that are not
	// listed keep their defaults.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`
}

// ServerConfiguration configures the hub's gRPC server.
type ServerConfiguration struct {
	// imagePullSpec is the image of the server. Default:
	// registrationImagePullSpec.
	ImagePullSpec string `json:"imagePullSpec,omitempty"`

	// featureGates turn features of the server on or off. Features that are not
	// listed keep their defaults.
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// endpointsExposure is how the server is exposed to agents. Default: not
	// exposed outside the cluster.
	// +optional
	EndpointsExposure []EndpointExposure `json:"endpointsExposure,omitempty"`
}

// EndpointExposure is how a server of the hub is exposed.
type EndpointExposure struct {
	// usage is who the endpoint is for; empty means agents. Default: empty.
	// +optional
	Usage string `json:"usage,omitempty"`

	// protocol is grpc or https. Default: grpc.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=grpc;https
	// +kubebuilder:default=grpc
	Protocol string `json:"protocol"`

	// grpc contains the options for protocol grpc.
	GRPC *Endpoint `json:"grpc,omitempty"`

	// https contains the options for protocol https.
	HTTPS *Endpoint `json:"https,omitempty"`
}

// Endpoint is a way to reach a server.
type Endpoint struct {
	// type is hostname (a host name that the administrator manages), loadBalancer
	// (a Service of type LoadBalancer is created) or route (an OpenShift Route is
	// created). Default: hostname.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=hostname;loadBalancer;route
	// +kubebuilder:default=hostname
	Type EndpointExposureType `json:"type,omitempty"`

	// hostname contains the options for type hostname.
	// +optional
	Hostname *HostnameConfig `json:"hostname,omitempty"`

	// loadBalancer contains the options for type loadBalancer.
	// +optional
	LoadBalancer *LoadBalancerConfig `json:"loadBalancer,omitempty"`

	// route contains the options for type route.
	// +optional
	Route *RouteConfig `json:"route,omitempty"`
}

// EndpointExposureType is a way to reach a server.
type EndpointExposureType string

const (
	// EndpointExposureTypeHostname is an existing host name.
	EndpointExposureTypeHostname EndpointExposureType = "hostname"
	// EndpointExposureTypeLoadBalancer is a Service of type LoadBalancer.
	EndpointExposureTypeLoadBalancer EndpointExposureType = "loadBalancer"
	// EndpointExposureTypeRoute is an OpenShift Route.
	EndpointExposureTypeRoute EndpointExposureType = "route"
)

// HostnameConfig is a host name that resolves to a server.
type HostnameConfig struct {
	// host is the host name.
	// +required
	// +kubebuilder:validation:Required
	Host string `json:"host"`

	// caBundle contains the PEM-encoded CA certificates that verify the server's
	// certificate. Default: the hub's own.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// LoadBalancerConfig is a load balancer in front of a server.
type LoadBalancerConfig struct {
	// host is the host name of the load balancer. Default: the address in the
	// status of its Service.
	// +optional
	Host string `json:"host,omitempty"`

	// caBundle contains the PEM-encoded CA certificates that verify the server's
	// certificate. Default: the hub's own.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// RouteConfig is an OpenShift Route to a server.
type RouteConfig struct {
	// host is the host name of the Route. Default: the one that OpenShift assigns.
	// +optional
	Host string `json:"host,omitempty"`

	// caBundle contains the PEM-encoded CA certificates that verify the server's
	// certificate. Default: the hub's own.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// ClusterManagerStatus is the observed state of a hub.
type ClusterManagerStatus struct {
	// observedGeneration is the metadata.generation that the operator last
	// reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions report what works and what does not; see
	// docs/spec/operator/clustermanager.md.
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

// ClusterManagerList is a list of ClusterManagers.
//
// +kubebuilder:object:root=true
type ClusterManagerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ClusterManagers.
	Items []ClusterManager `json:"items"`
}
