// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterManager makes the cluster it is created in a hub: the operator installs
// the hub's controllers and webhooks in namespace open-cluster-management-hub.
// Deleting the ClusterManager removes them, once no member is left.
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

	// spec is how the hub shall be. Default: deployOption.mode Default.
	// +kubebuilder:default={deployOption: {mode: Default}}
	Spec ClusterManagerSpec `json:"spec"`

	// status is how the hub is.
	// +optional
	Status ClusterManagerStatus `json:"status,omitempty"`
}

// ClusterManagerSpec is how a hub shall be.
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
	// operator. This version installs no placement controller.
	// +optional
	// +kubebuilder:default=quay.io/open-cluster-management/placement
	PlacementImagePullSpec string `json:"placementImagePullSpec,omitempty"`

	// addOnManagerImagePullSpec is the image of the add-on manager. Default:
	// quay.io/open-cluster-management/addon-manager, which stands for the image of
	// the operator. This version installs no add-on manager.
	// +optional
	// +kubebuilder:default=quay.io/open-cluster-management/addon-manager
	AddOnManagerImagePullSpec string `json:"addOnManagerImagePullSpec,omitempty"`

	// nodePlacement tells which nodes the hub's pods may run on. Default: any.
	// +optional
	NodePlacement NodePlacement `json:"nodePlacement,omitempty"`

	// deployOption tells where the hub's components run. Default: mode Default.
	// +optional
	// +kubebuilder:default={mode: Default}
	DeployOption ClusterManagerDeployOption `json:"deployOption,omitempty"`

	// registrationConfiguration has the options of registration.
	// +optional
	RegistrationConfiguration *RegistrationHubConfiguration `json:"registrationConfiguration,omitempty"`

	// workConfiguration has the options of work. Default: workDriver kube.
	// +optional
	// +kubebuilder:default={workDriver: kube}
	WorkConfiguration *WorkConfiguration `json:"workConfiguration,omitempty"`

	// addOnManagerConfiguration has the options of the add-on manager.
	// +optional
	AddOnManagerConfiguration *AddOnManagerConfiguration `json:"addOnManagerConfiguration,omitempty"`

	// placementConfiguration has the options of placement.
	// +optional
	PlacementConfiguration *PlacementConfiguration `json:"placementConfiguration,omitempty"`

	// serverConfiguration has the options of the gRPC server, which runs if
	// registrationDrivers has one of authType grpc.
	// +optional
	ServerConfiguration *ServerConfiguration `json:"serverConfiguration,omitempty"`

	// resourceRequirement tells which resources the hub's pods ask for. Default:
	// type Default.
	// +optional
	ResourceRequirement *ResourceRequirement `json:"resourceRequirement,omitempty"`
}

// ClusterManagerDeployOption tells where the hub's components run.
type ClusterManagerDeployOption struct {
	// mode is Default (on the hub itself) or Hosted (on another cluster, in the
	// namespace with the name of the ClusterManager). It must not be changed.
	// Default: Default.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=Default;Hosted
	// +kubebuilder:default=Default
	Mode InstallMode `json:"mode,omitempty"`

	// default has the options of mode Default.
	// +optional
	Default *DefaultClusterManagerConfiguration `json:"default,omitempty"`

	// hosted has the options of mode Hosted.
	// +optional
	Hosted *HostedClusterManagerConfiguration `json:"hosted,omitempty"`
}

// DefaultClusterManagerConfiguration has the options of mode Default.
type DefaultClusterManagerConfiguration struct {
	// registrationWebhookConfiguration has the options of the registration webhook.
	// +optional
	RegistrationWebhookConfiguration DefaultWebhookConfiguration `json:"registrationWebhookConfiguration,omitempty"`

	// workWebhookConfiguration has the options of the work webhook.
	// +optional
	WorkWebhookConfiguration DefaultWebhookConfiguration `json:"workWebhookConfiguration,omitempty"`

	// addonWebhookConfiguration has the options of the add-on webhook. Its port is
	// always 9443.
	// +optional
	AddonWebhookConfiguration DefaultWebhookConfiguration `json:"addonWebhookConfiguration,omitempty"`
}

// HostedClusterManagerConfiguration has the options of mode Hosted.
type HostedClusterManagerConfiguration struct {
	// registrationWebhookConfiguration has the options of the registration webhook.
	// +optional
	RegistrationWebhookConfiguration HostedWebhookConfiguration `json:"registrationWebhookConfiguration,omitempty"`

	// workWebhookConfiguration has the options of the work webhook.
	// +optional
	WorkWebhookConfiguration HostedWebhookConfiguration `json:"workWebhookConfiguration,omitempty"`
}

// DefaultWebhookConfiguration has the options of a webhook in mode Default.
type DefaultWebhookConfiguration struct {
	// bindConfiguration tells what the webhook listens on. Default: port 9443,
	// healthProbePort 8000, metricsPort 8080, no host network.
	BindConfiguration *BindConfiguration `json:"bindConfiguration,omitempty"`
}

// HostedWebhookConfiguration has the options of a webhook in mode Hosted.
type HostedWebhookConfiguration struct {
	// address is the IP address or host name under which the hub's API server
	// reaches the webhook: that of a Service of type NodePort or LoadBalancer on
	// the cluster that the webhook runs on, for example.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])$`
	Address string `json:"address"`

	// port is the port under which the hub's API server reaches the webhook, at
	// most 65535. Default: 443.
	// +optional
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=443
	Port int32 `json:"port,omitempty"`

	// bindConfiguration tells what the webhook listens on. Default: port 9443,
	// healthProbePort 8000, metricsPort 8080, no host network.
	BindConfiguration *BindConfiguration `json:"bindConfiguration,omitempty"`
}

// BindConfiguration tells what a webhook listens on.
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

	// hostNetwork lets the webhook listen on its node's addresses, for clusters
	// whose API server does not reach pods. Default: false.
	// +optional
	HostNetwork bool `json:"hostNetwork,omitempty"`
}

// RegistrationHubConfiguration has the options of registration on the hub.
type RegistrationHubConfiguration struct {
	// autoApproveUsers are the users whose members are approved and accepted
	// without an administrator. Needs feature gate ManagedClusterAutoApproval.
	// Default: none.
	// +optional
	AutoApproveUsers []string `json:"autoApproveUsers,omitempty"`

	// featureGates turn features of registration on or off. Default: each
	// feature's own.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// registrationDrivers tell how agents may authenticate; one entry for each
	// authType. Default: csr.
	// +optional
	// +listType=map
	// +listMapKey=authType
	RegistrationDrivers []RegistrationDriverHub `json:"registrationDrivers,omitempty"`

	// importerConfiguration has the options of the importer, which installs agents
	// on clusters that Cluster API made. Needs feature gate ClusterImporter.
	// +optional
	ImporterConfiguration *ImporterConfiguration `json:"importerConfiguration,omitempty"`
}

// ImporterConfiguration has the options of the importer.
type ImporterConfiguration struct {
	// renderers name what changes the agent's objects before they are installed,
	// in this order. Default: those that are built in.
	// +optional
	Renderers []string `json:"renderers,omitempty"`
}

// RegistrationDriverHub tells how agents may authenticate in one way.
type RegistrationDriverHub struct {
	// authType is csr (client certificate by certificate signing request), awsirsa
	// (AWS role of a service account) or grpc (by the hub's gRPC server). Default:
	// csr.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=csr;awsirsa;grpc
	// +kubebuilder:default=csr
	AuthType string `json:"authType,omitempty"`

	// csr has the options of authType csr.
	// +optional
	CSR *CSRConfig `json:"csr,omitempty"`

	// awsirsa has the options of authType awsirsa.
	// +optional
	AWSIRSA *AWSIRSAConfig `json:"awsirsa,omitempty"`

	// grpc has the options of authType grpc.
	// +optional
	GRPC *GRPCRegistrationConfig `json:"grpc,omitempty"`
}

// CSRConfig has the options of registering by certificate signing request.
type CSRConfig struct {
	// autoApprovedIdentities are the users whose members are approved and accepted
	// without an administrator, in addition to autoApproveUsers. Needs feature
	// gate ManagedClusterAutoApproval. Default: none.
	// +optional
	AutoApprovedIdentities []string `json:"autoApprovedIdentities,omitempty"`
}

// AWSIRSAConfig has the options of registering by AWS role.
type AWSIRSAConfig struct {
	// hubClusterArn is the ARN of the hub, such as
	// arn:aws:eks:us-west-2:123456789012:cluster/hub.
	// +optional
	// +kubebuilder:validation:Pattern=`^arn:aws:eks:([a-zA-Z0-9-]+):(\d{12}):cluster/([a-zA-Z0-9-]+)$`
	HubClusterARN string `json:"hubClusterArn,omitempty"`

	// autoApprovedIdentities are regular expressions; members whose ARN matches one
	// are accepted without an administrator. Needs feature gate
	// ManagedClusterAutoApproval. Default: none.
	// +optional
	AutoApprovedIdentities []string `json:"autoApprovedIdentities,omitempty"`

	// tags are put onto what is made in AWS, each as key=value. Default: none.
	// +optional
	Tags []string `json:"tags,omitempty"`
}

// GRPCRegistrationConfig has the options of registering by gRPC.
type GRPCRegistrationConfig struct {
	// autoApprovedIdentities are the users whose members are approved and accepted
	// without an administrator. Needs feature gate ManagedClusterAutoApproval.
	// Default: none.
	// +optional
	AutoApprovedIdentities []string `json:"autoApprovedIdentities,omitempty"`
}

// WorkConfiguration has the options of work on the hub.
type WorkConfiguration struct {
	// featureGates turn features of work on or off. Default: each feature's own.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// workDriver tells how ManifestWorks come to the members: kube (agents watch
	// the hub's API server), mqtt (by an MQTT broker) or grpc (by a gRPC server).
	// The latter two need the secret work-driver-config and feature gate
	// CloudEventsDrivers. Default: kube.
	// +optional
	// +kubebuilder:validation:Enum=kube;mqtt;grpc
	// +kubebuilder:default=kube
	WorkDriver WorkDriverType `json:"workDriver,omitempty"`
}

// WorkDriverType tells how ManifestWorks come to the members.
type WorkDriverType string

const (
	// WorkDriverTypeKube lets agents watch the hub's API server.
	WorkDriverTypeKube WorkDriverType = "kube"
	// WorkDriverTypeMQTT uses an MQTT broker.
	WorkDriverTypeMQTT WorkDriverType = "mqtt"
	// WorkDriverTypeGRPC uses a gRPC server.
	WorkDriverTypeGRPC WorkDriverType = "grpc"
)

// AddOnManagerConfiguration has the options of the add-on manager.
type AddOnManagerConfiguration struct {
	// featureGates turn features of the add-on manager on or off. Default: each
	// feature's own.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`
}

// PlacementConfiguration has the options of placement.
type PlacementConfiguration struct {
	// featureGates turn features of placement on or off. Default: each feature's
	// own.
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`
}

// ServerConfiguration has the options of the hub's gRPC server.
type ServerConfiguration struct {
	// imagePullSpec is the image of the server. Default: that of registration.
	ImagePullSpec string `json:"imagePullSpec,omitempty"`

	// featureGates turn features of the server on or off. Default: each feature's
	// own.
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`

	// endpointsExposure tells how agents reach the server. Default: not at all
	// from outside of the cluster.
	// +optional
	EndpointsExposure []EndpointExposure `json:"endpointsExposure,omitempty"`
}

// EndpointExposure tells how a server of the hub is reached.
type EndpointExposure struct {
	// usage tells who the endpoint is for; empty means agents. Default: empty.
	// +optional
	Usage string `json:"usage,omitempty"`

	// protocol is grpc or https. Default: grpc.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=grpc;https
	// +kubebuilder:default=grpc
	Protocol string `json:"protocol"`

	// grpc has the options of protocol grpc.
	GRPC *Endpoint `json:"grpc,omitempty"`

	// https has the options of protocol https.
	HTTPS *Endpoint `json:"https,omitempty"`
}

// Endpoint is a way to reach a server.
type Endpoint struct {
	// type is hostname (a host name that the administrator takes care of),
	// loadBalancer (a Service of type LoadBalancer is made) or route (an OpenShift
	// Route is made). Default: hostname.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=hostname;loadBalancer;route
	// +kubebuilder:default=hostname
	Type EndpointExposureType `json:"type,omitempty"`

	// hostname has the options of type hostname.
	// +optional
	Hostname *HostnameConfig `json:"hostname,omitempty"`

	// loadBalancer has the options of type loadBalancer.
	// +optional
	LoadBalancer *LoadBalancerConfig `json:"loadBalancer,omitempty"`

	// route has the options of type route.
	// +optional
	Route *RouteConfig `json:"route,omitempty"`
}

// EndpointExposureType is a way to reach a server.
type EndpointExposureType string

const (
	// EndpointExposureTypeHostname is a host name that exists already.
	EndpointExposureTypeHostname EndpointExposureType = "hostname"
	// EndpointExposureTypeLoadBalancer is a Service of type LoadBalancer.
	EndpointExposureTypeLoadBalancer EndpointExposureType = "loadBalancer"
	// EndpointExposureTypeRoute is an OpenShift Route.
	EndpointExposureTypeRoute EndpointExposureType = "route"
)

// HostnameConfig is a host name that leads to a server.
type HostnameConfig struct {
	// host is the host name.
	// +required
	// +kubebuilder:validation:Required
	Host string `json:"host"`

	// caBundle has the PEM encoded certificates that the server's certificate is
	// verified with. Default: the hub's own.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// LoadBalancerConfig is a load balancer that leads to a server.
type LoadBalancerConfig struct {
	// host is the host name of the load balancer. Default: what the status of its
	// Service has.
	// +optional
	Host string `json:"host,omitempty"`

	// caBundle has the PEM encoded certificates that the server's certificate is
	// verified with. Default: the hub's own.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// RouteConfig is an OpenShift Route that leads to a server.
type RouteConfig struct {
	// host is the host name of the Route. Default: what OpenShift gives it.
	// +optional
	Host string `json:"host,omitempty"`

	// caBundle has the PEM encoded certificates that the server's certificate is
	// verified with. Default: the hub's own.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
}

// ClusterManagerStatus is how a hub is.
type ClusterManagerStatus struct {
	// observedGeneration is metadata.generation of the spec that the operator has
	// last worked on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions tell what works and what does not; see
	// docs/spec/operator/clustermanager.md.
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
