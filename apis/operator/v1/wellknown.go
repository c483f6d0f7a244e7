// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// Finalizers.
const (
	// FinalizerClusterManagerCleanup keeps a ClusterManager until the operator has
	// removed the hub.
	FinalizerClusterManagerCleanup = "operator.open-cluster-management.io/cluster-manager-cleanup"
	// FinalizerClusterManagerHostedCleanup keeps a ClusterManager of mode Hosted
	// until the operator has removed what it installed on the hub.
	FinalizerClusterManagerHostedCleanup = "operator.open-cluster-management.io/cluster-manager-hosted-cleanup"
	// FinalizerKlusterletCleanup keeps a Klusterlet until the operator has removed
	// the agents.
	FinalizerKlusterletCleanup = "operator.open-cluster-management.io/klusterlet-cleanup"
	// FinalizerKlusterletHostedCleanup keeps a Klusterlet of mode Hosted until the
	// operator has removed what it installed on the member.
	FinalizerKlusterletHostedCleanup = "operator.open-cluster-management.io/klusterlet-hosted-cleanup"
)

// Labels.
const (
	// LabelCreatedByClusterManager is on everything that the operator installs for
	// a ClusterManager. The value is its name.
	LabelCreatedByClusterManager = "open-cluster-management.io/created-by-clustermanager"
	// LabelCreatedByKlusterlet is on everything that the operator installs for a
	// Klusterlet. The value is its name.
	LabelCreatedByKlusterlet = "open-cluster-management.io/created-by-klusterlet"
	// LabelKlusterlet is on the namespace of a Klusterlet's agents. The value is
	// the name of the Klusterlet.
	LabelKlusterlet = "operator.open-cluster-management.io/klusterlet"
	// LabelAggregateToWork set to "true" on a ClusterRole grants its permissions
	// to the work agent.
	LabelAggregateToWork = "open-cluster-management.io/aggregate-to-work"
	// LabelAddOnNamespace set to "true" on a namespace has image pull Secrets
	// copied into it.
	LabelAddOnNamespace = "addon.open-cluster-management.io/namespace"
	// LabelOperatedBy on a namespace lets the operator whose ServiceAccount has
	// that name write into it; the fence keeps it out of all others but the
	// well-known ones. Users set it; an operator sets it on namespaces that it
	// creates itself.
	LabelOperatedBy = "fleet.capstan.io/operated-by"
	// LabelPartOf with the value PartOfCapstan marks the objects that install the
	// operators, whichever tool created them, to distinguish them from those of
	// other products.
	LabelPartOf = "app.kubernetes.io/part-of"
	// PartOfCapstan is the value of LabelPartOf.
	PartOfCapstan = "capstan"
)

// Annotations.
const (
	// AnnotationCRDVersion on a CustomResourceDefinition has the version of the
	// operator that wrote it, so that an older operator leaves it alone.
	AnnotationCRDVersion = "operator.open-cluster-management.io/version"
	// AnnotationHubResourcesEvictionTimestamp on a ClusterManager of mode Hosted
	// is the time since which the hub, while being removed, has been unreachable.
	AnnotationHubResourcesEvictionTimestamp = "operator.open-cluster-management.io/hub-resources-eviction-timestamp"
	// AnnotationManagedResourcesEvictionTimestamp on a Klusterlet of mode Hosted
	// is the time since which the member, while being removed, has been
	// unreachable.
	AnnotationManagedResourcesEvictionTimestamp = "operator.open-cluster-management.io/managed-resources-eviction-timestamp"
	// AnnotationWorkloadAllowed set to "management" on a namespace lets OpenShift
	// run its pods on the CPUs reserved for management.
	AnnotationWorkloadAllowed = "workload.openshift.io/allowed"
)

// Namespaces.
const (
	// DefaultOperatorNamespace is the namespace that the operators are installed in.
	DefaultOperatorNamespace = "open-cluster-management"
	// DefaultHubNamespace is the namespace of the hub's components in mode Default.
	DefaultHubNamespace = "open-cluster-management-hub"
	// DefaultAgentNamespace is the default of a Klusterlet's spec.namespace.
	DefaultAgentNamespace = "open-cluster-management-agent"
	// DefaultAddOnNamespace is the namespace of add-ons that do not specify one.
	DefaultAddOnNamespace = "open-cluster-management-agent-addon"
)

// Secrets and ConfigMaps on the hub.
const (
	// SignerSecret has the hub's own certificate authority (keys tls.crt, tls.key).
	SignerSecret = "signer-secret"
	// CABundleConfigMap has the certificates to verify the hub's own servers with.
	CABundleConfigMap = "ca-bundle-configmap"
	// CABundleKey is the key of CABundleConfigMap.
	CABundleKey = "ca-bundle.crt"
	// RegistrationWebhookServingCertSecret has the registration webhook's certificate.
	RegistrationWebhookServingCertSecret = "registration-webhook-serving-cert"
	// WorkWebhookServingCertSecret has the work webhook's certificate.
	WorkWebhookServingCertSecret = "work-webhook-serving-cert"
	// PlacementDebugServingCertSecret has the certificate of the debug endpoint for
	// Placements.
	PlacementDebugServingCertSecret = "placement-debug-serving-cert"
	// APIServerServingCertSecret has the certificate of the aggregated API server.
	APIServerServingCertSecret = "apiserver-serving-cert"
	// ExternalHubKubeConfigSecret has, in mode Hosted, the kubeconfig of the hub.
	ExternalHubKubeConfigSecret = "external-hub-kubeconfig"
	// HubKubeConfigSecretSuffix is, in mode Hosted, the suffix of the Secrets with
	// a component's kubeconfig for the hub, after the name of its ServiceAccount.
	// The operator creates them and renews their tokens.
	HubKubeConfigSecretSuffix = "-kubeconfig"
	// BootstrapServiceAccount, in the operator's namespace, or in mode Hosted in
	// that of the hub, is the identity whose tokens bootstrap kubeconfigs contain.
	BootstrapServiceAccount = "agent-registration-bootstrap"
	// BootstrapClusterRole grants the permissions that an agent needs to register.
	BootstrapClusterRole = "open-cluster-management:bootstrap"
	// ImagePullSecret is copied to the namespaces of the installed pods, if it
	// exists.
	ImagePullSecret = "open-cluster-management-image-pull-credentials"
)

// Secrets of agents, in their namespace, and their keys.
const (
	// BootstrapHubKubeConfigSecret has the kubeconfig that an agent registers with.
	BootstrapHubKubeConfigSecret = "bootstrap-hub-kubeconfig"
	// HubKubeConfigSecret has the kubeconfig that an agent uses once it has
	// registered.
	HubKubeConfigSecret = "hub-kubeconfig-secret"
	// HubKubeConfigPendingSecret has the key of a certificate that the agent has
	// requested but not received yet; it is empty otherwise.
	HubKubeConfigPendingSecret = "hub-kubeconfig-pending"
	// ExternalManagedKubeConfigSecret has, in mode Hosted, the kubeconfig of the
	// member.
	ExternalManagedKubeConfigSecret = "external-managed-kubeconfig"
	// ExternalManagedKubeConfigRegistrationSecret, ...WorkSecret and
	// ...AgentSecret have, in the modes Hosted, Hosted and SingletonHosted, the
	// member's kubeconfig for that agent. The operator creates them and renews
	// their tokens.
	ExternalManagedKubeConfigRegistrationSecret = "external-managed-kubeconfig-registration"
	ExternalManagedKubeConfigWorkSecret         = "external-managed-kubeconfig-work"
	ExternalManagedKubeConfigAgentSecret        = "external-managed-kubeconfig-agent"

	// KubeConfigKey is the key of a kubeconfig in these secrets.
	KubeConfigKey = "kubeconfig"
	// TokenKey is the key of the token that a kubeconfig written by the operator
	// refers to as a file.
	TokenKey = "token"
	// TLSCertKey is the key of the client certificate in HubKubeConfigSecret.
	TLSCertKey = "tls.crt"
	// TLSKeyKey is the key of the private key in HubKubeConfigSecret.
	TLSKeyKey = "tls.key"
	// ClusterNameKey is the key of the member's name in HubKubeConfigSecret.
	ClusterNameKey = "cluster-name"
	// AgentNameKey is the key of the agent's name in HubKubeConfigSecret.
	AgentNameKey = "agent-name"
)
