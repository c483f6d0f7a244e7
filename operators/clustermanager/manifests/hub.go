// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifests contains typed builders for what the ClusterManager
// operator installs on a hub. It is pure: a Hub goes in, objects come out.
// Names, labels and arguments are a contract with OCM's tools; the golden files
// in testdata show all of them.
//
// A further component is one more function that returns a HubComponent, in the
// list of HubComponents.
package manifests

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/server/features"
)

// Hub is everything that decides what is installed.
type Hub struct {
	// Name of the ClusterManager.
	Name string
	Spec operatorv1.ClusterManagerSpec
	// Labels are put on everything beside the label of the owner.
	Labels map[string]string
	// OperatorNamespace is where the operator runs and bootstrap identities live.
	OperatorNamespace string
	// OwnImage is the image of the operator, used where the spec names none.
	OwnImage string
	// PullSecret is the name of the secret in the hub's namespace to pull with;
	// empty if there is none.
	PullSecret string
	// Replicas of each component.
	Replicas int32
	// NoPush says that there can be no Push clusters, so that there is no push
	// agent either; PushClusters that there are some.
	NoPush, PushClusters bool
	// MetricsPerCluster says that metrics of the push agent name clusters.
	MetricsPerCluster bool
	// ProxyEnv are the variables by which components find a proxy.
	ProxyEnv []corev1.EnvVar
	// TLSFlags are the flags by which components are told TLS settings.
	TLSFlags []string
	// Gates of the spec.
	Registration, Work, Placement features.GateSet
	// MaxUnaccepted is how many clusters of one user may wait for acceptance; nil
	// leaves the default.
	MaxUnaccepted *int
	// MaxAutomatic is how many clusters are accepted automatically because of one
	// bootstrap token; nil leaves the default.
	MaxAutomatic *int
	// AgentLabels are the labels that agents may change whose ClusterConnection does not
	// say which.
	AgentLabels agentlabels.AllowedKeys
	// SharedWorkBytesMax is how many bytes the works of namespaces have together, as the user
	// wrote it; empty leaves the default.
	SharedWorkBytesMax string
	// MaxRequestsPerUser is how many requests for the Cluster API one user may have
	// under way; 0 is no limit.
	MaxRequestsPerUser int
	// APIServerAddress is, in mode Hosted, where the hub's API server reaches the
	// aggregated one; empty if nobody knows.
	APIServerAddress string
	// CABundle, as PEM, verifies the servers of webhooks and aggregated APIs.
	CABundle []byte
	// HubPort is, in mode Hosted, the TCP port of the hub's API server.
	HubPort int32
	// Kubeconfigs has, in mode Hosted, a hash of the kubeconfig of the hub for each
	// ServiceAccount; a component is rolled when it changes.
	Kubeconfigs map[string]string
}

// IsHosted reports whether the components run on another cluster than the hub.
func (h Hub) IsHosted() bool { return h.Spec.DeployOption.Mode == operatorv1.InstallModeHosted }

// Namespace is where the hub's components run.
func (h Hub) Namespace() string {
	if h.IsHosted() {
		return h.Name
	}
	return operatorv1.DefaultHubNamespace
}

// bootstrapNamespace is where the identity lives that agents register with:
// beside the operator, if that is on the hub.
func (h Hub) bootstrapNamespace() string {
	if h.IsHosted() {
		return h.Namespace()
	}
	return h.OperatorNamespace
}

// OwnerLabels returns the labels that everything of this hub has, and nothing else.
func (h Hub) OwnerLabels() map[string]string {
	return map[string]string{operatorv1.LabelCreatedByClusterManager: h.Name}
}

// resourceMeta returns the marks of an object of the hub's namespace.
func (h Hub) resourceMeta(name string) render.ResourceMeta {
	labels := maps.Clone(h.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, h.OwnerLabels())
	return render.ResourceMeta{Name: name, Namespace: h.Namespace(), Labels: labels}
}

// roleName returns the name of a role for a part of the hub.
func (h Hub) roleName(part string) string { return "open-cluster-management:" + h.Name + "-" + part }

// PropagationEnabled reports whether the hub serves policies and bindings.
func (h Hub) PropagationEnabled() bool { return h.Placement.Enabled(features.Propagation) }

// HubComponent is a part of the hub that runs as a Deployment.
type HubComponent struct {
	// RBAC is the name under which config has the rules of the component.
	RBAC string
	// Role is the name of its roles and bindings.
	Role string
	// Workload is how it runs.
	Workload render.Workload
	// Webhook is set for those that serve webhooks, APIServer for those that serve
	// aggregated APIs.
	Webhook, APIServer *ComponentServer
	// Debug is set for those whose pods serve a debug endpoint.
	Debug *DebugServer
	// MetricsPort is where the pods serve metrics.
	MetricsPort int32
	// CountsFor is the condition that reports whether its pods are missing; empty
	// if none does.
	CountsFor string
}

// ComponentServer is how API servers reach a component.
type ComponentServer struct {
	// Service is its name, which does not depend on that of the ClusterManager.
	Service string
	// Secret has the serving certificate.
	Secret string
	// Port that the pods listen on.
	Port int32
	// ServicePort is that of the Service.
	ServicePort int32
	// Address, in mode Hosted, is where the hub's API server reaches the server, at
	// ServicePort.
	Address string
}

// certificateHosts returns the names of the server, an IP address last.
func (s ComponentServer) certificateHosts(h Hub) []string {
	hosts := []string{s.Service + "." + h.Namespace() + ".svc"}
	if s.Address != "" {
		hosts = append(hosts, s.Address)
	}
	return hosts
}

// apiFacingServer is how API servers reach the component; nil if they do not.
func (c HubComponent) apiFacingServer() *ComponentServer {
	if c.Webhook != nil {
		return c.Webhook
	}
	return c.APIServer
}

// DebugServer is how people reach the debug endpoint of a component, on the
// cluster that its pods run on.
type DebugServer struct {
	Service string
	// Secret has the serving certificate.
	Secret string
	// Port of the Service, and that the pods listen on.
	Port int32
}

// HubComponents returns the parts of the hub, in the order of their installation.
func HubComponents(h Hub) []HubComponent {
	components := unhostedComponents(h)
	if h.IsHosted() {
		for i := range components {
			components[i].Workload = h.hostedWorkload(components[i])
		}
	}
	return components
}

// OptionalAccounts are the ServiceAccounts of the components that a hub need not
// have.
func OptionalAccounts() []string {
	return []string{workControllerAccount, fleetv1alpha1.PropagationServiceAccount, fleetv1alpha1.PushAgentServiceAccount, APIServerAccount}
}

func unhostedComponents(h Hub) []HubComponent {
	components := []HubComponent{registrationController(h), registrationWebhook(h), workWebhook(h), placementController(h)}
	if h.Work.Enabled(features.CleanUpCompletedManifestWork) || h.Work.Enabled(features.ManifestWorkReplicaSet) {
		components = append(components, workController(h))
	}
	if h.PropagationEnabled() {
		components = append(components, propagationController(h))
	}
	if h.AggregatedAPI() {
		components = append(components, apiServerComponent(h))
	}
	if h.NoPush {
		return components
	}
	return append(components, pushAgent(h))
}

// OptionalCertificates are the Secrets with serving certificates of what a hub
// need not have.
func OptionalCertificates() []string {
	return []string{operatorv1.PlacementDebugServingCertSecret, operatorv1.APIServerServingCertSecret}
}

// ServingCertificates returns the certificates that the servers need.
func ServingCertificates(h Hub) []certs.Leaf {
	var list []certs.Leaf
	for _, c := range HubComponents(h) {
		if server := c.apiFacingServer(); server != nil {
			list = append(list, certs.Leaf{Secret: server.Secret, Hosts: server.certificateHosts(h)})
		}
		if c.Debug != nil {
			list = append(list, certs.Leaf{Secret: c.Debug.Secret, Hosts: []string{c.Debug.Service + "." + h.Namespace() + ".svc"}})
		}
	}
	return list
}

// HubNamespaces returns the namespace of the hub. In mode Hosted there are two of
// the same name: for the pods, and on the hub for their accounts.
func HubNamespaces(h Hub) []render.Object {
	// The last label lets the operator write there, whose fence bars it from other
	// namespaces. It may set it on one that it makes only.
	m := h.resourceMeta(h.Namespace()).InNamespace("").WithLabels(map[string]string{operatorv1.LabelOperatedBy: "cluster-manager"}).WithAnnotations(map[string]string{operatorv1.AnnotationWorkloadAllowed: "management"})
	return []render.Object{render.Namespace(m)}
}

// ComponentRules tells the rules of a component: for the whole cluster, and for the
// namespace that it runs in.
type ComponentRules func(component string) (cluster, namespaced []rbacv1.PolicyRule, err error)

// ComponentAccess returns the ServiceAccounts of the components with their roles on the
// hub. What a component needs in its own namespace it needs where its pods run,
// which in mode Hosted HomeAccess has.
func ComponentAccess(h Hub, rules ComponentRules) ([]render.Object, error) {
	var objects []render.Object
	for _, c := range HubComponents(h) {
		cluster, namespaced, err := rules(c.RBAC)
		if err != nil {
			return nil, err
		}
		account := render.AccountSubject(h.Namespace(), c.Workload.ServiceAccount)
		objects = append(objects, render.ServiceAccount(h.resourceMeta(c.Workload.ServiceAccount)))
		objects = append(objects,
			render.ClusterRole(h.resourceMeta(c.Role).InNamespace(""), cluster),
			render.ClusterRoleBinding(h.resourceMeta(c.Role).InNamespace(""), c.Role, account))
		if len(namespaced) > 0 && !h.IsHosted() {
			objects = append(objects,
				render.Role(h.resourceMeta(c.Role), namespaced),
				render.RoleBinding(h.resourceMeta(c.Role), c.Role, account))
		}
	}
	if h.PropagationEnabled() {
		objects = append(objects, templatesRole(h)...)
	}
	objects = append(objects, executorAdmin(h))
	if !h.NoPush {
		objects = append(objects, pushCredentials(h))
	}
	return objects, nil
}

// ServerServices returns what leads the hub's API server to the servers of components.
func ServerServices(h Hub) []render.Object {
	var objects []render.Object
	for _, c := range HubComponents(h) {
		server := c.apiFacingServer()
		switch {
		case server == nil:
		case h.IsHosted():
			objects = append(objects, serviceByAddress(h, *server)...)
		default:
			objects = append(objects, render.ServiceForApp(h.resourceMeta(server.Service), c.Workload.App, server.ServicePort, server.Port))
		}
	}
	return objects
}

// HomeServices returns what leads to servers where the pods run: those for people,
// and in mode Hosted that of aggregated APIs.
func HomeServices(h Hub) []render.Object {
	var objects []render.Object
	for _, c := range HubComponents(h) {
		if c.Debug != nil {
			objects = append(objects, render.ServiceForApp(h.resourceMeta(c.Debug.Service), c.Workload.App, c.Debug.Port, c.Debug.Port))
		}
		if c.APIServer != nil && h.IsHosted() {
			objects = append(objects, render.ServiceForApp(h.resourceMeta(hostedAPIServerService), c.Workload.App, c.APIServer.ServicePort, c.APIServer.Port))
		}
	}
	return objects
}

// ComponentDeployments returns the Deployments of the components.
func ComponentDeployments(h Hub) []render.Object {
	var objects []render.Object
	for _, c := range HubComponents(h) {
		objects = append(objects, c.Workload.RenderDeployment())
	}
	return objects
}
