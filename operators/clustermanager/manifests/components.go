// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
)

// What the fields of the spec have if nobody sets them, by the definition of
// ClusterManager: OCM's images. They stand for "the image of the operator",
// for this operator installs its own release.
const (
	unsetRegistrationImage = "quay.io/open-cluster-management/registration"
	unsetWorkImage         = "quay.io/open-cluster-management/work"
	unsetPlacementImage    = "quay.io/open-cluster-management/placement"
)

// Ports of components, where the spec has no others.
const (
	healthPort         int32 = 8000
	metricsPort        int32 = 8080
	webhookPort        int32 = 9443
	webhookServicePort int32 = 9443
	// The debug endpoint for Placements, and the health of its container, which is in
	// a pod with another one.
	debugPort       int32 = 9443
	debugHealthPort int32 = 8001
)

const (
	webhookCertVolume = "webhook-secret"
	webhookCertPath   = "/tmp/k8s-webhook-server/serving-certs"
	debugCertVolume   = "debug-secret"
)

// Pod labels "app" that do not follow the name of the ClusterManager. Tools
// wait for pods by them.
const (
	registrationControllerApp = "clustermanager-registration-controller"
	placementControllerApp    = "clustermanager-placement-controller"
)

// Services, which are called the same on every hub.
const (
	registrationWebhookService = "cluster-manager-registration-webhook"
	workWebhookService         = "cluster-manager-work-webhook"
)

func registrationController(h Hub) HubComponent {
	w := h.baseWorkload("registration-controller", imageOr(h.Spec.RegistrationImagePullSpec, unsetRegistrationImage, h.OwnImage))
	w.App = registrationControllerApp
	w.Args = append([]string{"/registration", "controller"}, registrationFlags(h, w.Image)...)
	return HubComponent{
		RBAC: config.RegistrationController, Role: h.roleName("registration:controller"), Workload: w, MetricsPort: metricsPort,
		CountsFor: operatorv1.ClusterManagerConditionHubRegistrationDegraded,
	}
}

func registrationFlags(h Hub, image string) []string {
	flags := gateFlags(h.Registration)
	spec := h.Spec.RegistrationConfiguration
	if spec == nil {
		spec = &operatorv1.RegistrationHubConfiguration{}
	}
	if len(spec.AutoApproveUsers) > 0 {
		flags = append(flags, "--cluster-auto-approval-users="+strings.Join(spec.AutoApproveUsers, ","))
	}
	var drivers, csrUsers []string
	for _, driver := range spec.RegistrationDrivers {
		drivers = append(drivers, driver.AuthType)
		if driver.CSR != nil {
			csrUsers = append(csrUsers, driver.CSR.AutoApprovedIdentities...)
		}
	}
	if len(drivers) > 0 {
		flags = append(flags, "--enabled-registration-drivers="+strings.Join(drivers, ","))
	}
	if len(csrUsers) > 0 {
		flags = append(flags, "--auto-approved-csr-users="+strings.Join(csrUsers, ","))
	}
	flags = append(flags,
		"--agent-image="+image,
		"--bootstrap-serviceaccount="+h.bootstrapNamespace()+"/"+operatorv1.BootstrapServiceAccount)
	if h.PropagationEnabled() {
		flags = append(flags, "--count-pods", "--customizations")
	}
	if h.MaxAutomatic != nil {
		flags = append(flags, "--max-automatic-clusters="+strconv.Itoa(*h.MaxAutomatic))
	}
	if len(h.AgentLabels) > 0 {
		flags = append(flags, "--agent-labels="+h.AgentLabels.String())
	}
	if labels := labelFlag(h.Labels); labels != "" {
		flags = append(flags, "--labels="+labels)
	}
	return append(flags, h.TLSFlags...)
}

func registrationWebhook(h Hub) HubComponent {
	options := webhookOptions(h,
		func(d *operatorv1.DefaultClusterManagerConfiguration) operatorv1.DefaultWebhookConfiguration {
			return d.RegistrationWebhookConfiguration
		},
		func(hosted *operatorv1.HostedClusterManagerConfiguration) operatorv1.HostedWebhookConfiguration {
			return hosted.RegistrationWebhookConfiguration
		})
	bind := resolveBind(options.BindConfiguration)
	gates := gateFlags(h.Registration)
	if len(gates) == 0 {
		gates = []string{"--feature-gates=" + string(features.DefaultClusterSet) + "=true"}
	}
	w := h.baseWorkload("registration-webhook", imageOr(h.Spec.RegistrationImagePullSpec, unsetRegistrationImage, h.OwnImage))
	w.Args = append([]string{"/registration", "webhook-server"}, append(gates, bind.bindFlags()...)...)
	if h.MaxUnaccepted != nil {
		w.Args = append(w.Args, "--max-unaccepted-clusters="+strconv.Itoa(*h.MaxUnaccepted))
	}
	server := &ComponentServer{
		Service: registrationWebhookService, Secret: operatorv1.RegistrationWebhookServingCertSecret, Port: bind.port,
		ServicePort: options.Port, Address: options.Address,
	}
	return HubComponent{
		RBAC: config.RegistrationWebhook, Role: h.roleName("registration:webhook"), Webhook: server,
		Workload: h.withWebhookServer(w, server, bind), MetricsPort: bind.metrics,
		CountsFor: operatorv1.ClusterManagerConditionHubRegistrationDegraded,
	}
}

func workWebhook(h Hub) HubComponent {
	options := webhookOptions(h,
		func(d *operatorv1.DefaultClusterManagerConfiguration) operatorv1.DefaultWebhookConfiguration {
			return d.WorkWebhookConfiguration
		},
		func(hosted *operatorv1.HostedClusterManagerConfiguration) operatorv1.HostedWebhookConfiguration {
			return hosted.WorkWebhookConfiguration
		})
	bind := resolveBind(options.BindConfiguration)
	w := h.baseWorkload("work-webhook", imageOr(h.Spec.WorkImagePullSpec, unsetWorkImage, h.OwnImage))
	w.Args = append([]string{"/work", "webhook-server"}, append(gateFlags(h.Work), bind.bindFlags()...)...)
	if h.PropagationEnabled() && h.Placement.Enabled(features.PropagationAuthorization) {
		w.Args = append(w.Args, "--authorize-propagation")
	}
	server := &ComponentServer{
		Service: workWebhookService, Secret: operatorv1.WorkWebhookServingCertSecret, Port: bind.port,
		ServicePort: options.Port, Address: options.Address,
	}
	return HubComponent{
		RBAC: config.WorkWebhook, Role: h.roleName("work:webhook"), Webhook: server,
		Workload: h.withWebhookServer(w, server, bind), MetricsPort: bind.metrics,
	}
}

// workController is there only with a gate that it works for.
func workController(h Hub) HubComponent {
	w := h.baseWorkload("work-controller", imageOr(h.Spec.WorkImagePullSpec, unsetWorkImage, h.OwnImage))
	w.Args = append([]string{"/work", "manager"}, append(gateFlags(h.Work), append(h.allowanceFlags(), h.TLSFlags...)...)...)
	return HubComponent{
		RBAC: config.WorkController, Role: h.roleName("work:controller"), Workload: w, MetricsPort: metricsPort,
	}
}

func placementController(h Hub) HubComponent {
	w := h.baseWorkload("placement-controller", imageOr(h.Spec.PlacementImagePullSpec, unsetPlacementImage, h.OwnImage))
	w.App = placementControllerApp
	w.Args = append([]string{"/placement", "controller"}, append(gateFlags(h.Placement), h.TLSFlags...)...)
	c := HubComponent{
		RBAC: config.PlacementController, Role: h.roleName("placement:controller"), Workload: w, MetricsPort: metricsPort,
		CountsFor: operatorv1.ClusterManagerConditionHubPlacementDegraded,
	}
	if h.Placement.Enabled(features.PlacementDebugServer) {
		c.Debug = &DebugServer{Service: h.Name + "-placement", Secret: operatorv1.PlacementDebugServingCertSecret, Port: debugPort}
		c.Workload = h.withDebugSidecar(c.Workload, *c.Debug)
	}
	return c
}

// withDebugSidecar lets the pods of a workload serve the debug endpoint for Placements
// from a container of its own, with the same account.
func (h Hub) withDebugSidecar(w render.Workload, server DebugServer) render.Workload {
	w.Volumes = append(w.Volumes, render.SecretVolume(debugCertVolume, server.Secret, false))
	w.Sidecars = append(w.Sidecars, render.SidecarContainer{
		Container: "placement-debug",
		Args: append([]string{
			"/placement", "debug", fmt.Sprintf("--listen=0.0.0.0:%d", server.Port), fmt.Sprintf("--health-probe-port=%d", debugHealthPort),
		}, h.TLSFlags...),
		HealthPort: debugHealthPort,
		Ports:      []*corev1ac.ContainerPortApplyConfiguration{render.ContainerPort("debug", server.Port)},
		Mounts:     []*corev1ac.VolumeMountApplyConfiguration{render.VolumeMount(debugCertVolume, webhookCertPath, true)},
	})
	return w
}

// baseWorkload returns what all components of the hub have in common.
func (h Hub) baseWorkload(part, image string) render.Workload {
	w := render.Workload{
		ResourceMeta:   h.resourceMeta(h.Name + "-" + part),
		App:            h.Name + "-" + part,
		Container:      part,
		ServiceAccount: part + "-sa",
		Image:          image,
		Env:            append(render.EnvValues(h.ProxyEnv), render.PodEnv()...),
		Replicas:       h.Replicas,
		NodeSelector:   h.Spec.NodePlacement.NodeSelector,
		Tolerations:    h.Spec.NodePlacement.Tolerations,
		HealthPort:     healthPort,
	}
	if h.PullSecret != "" {
		w.PullSecrets = []string{h.PullSecret}
	}
	w.Resources = h.componentResources()
	return w
}

// memoryLimit is that of each program of the hub unless the spec has requirements of its
// own: what members answer and tenants write is held there, and shall not take what else
// runs on the node. docs/PERFORMANCE.md says what clusters, works and bindings cost.
const memoryLimit = "4Gi"

func (h Hub) componentResources() corev1.ResourceRequirements {
	if wanted := h.Spec.ResourceRequirement; !h.defaultResources() {
		return render.DefaultedResources(string(wanted.Type), wanted.ResourceRequirements)
	}
	resources := render.DefaultedResources("", nil)
	resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)}
	return resources
}

// defaultResources reports whether the spec leaves the resources to us.
func (h Hub) defaultResources() bool {
	wanted := h.Spec.ResourceRequirement
	return wanted == nil || wanted.Type == "" || wanted.Type == operatorv1.ResourceQosClassDefault
}

// admissionCPU is what a program requests by default that answers while somebody waits:
// of a node that is busy, 2m is so little that webhooks time out.
const admissionCPU = "50m"

// servingResources returns the resources of a program that answers requests.
func (h Hub) servingResources() corev1.ResourceRequirements {
	resources := h.componentResources()
	if h.defaultResources() {
		resources.Requests[corev1.ResourceCPU] = resource.MustParse(admissionCPU)
	}
	return resources
}

// withWebhookServer makes a workload serve webhooks.
func (h Hub) withWebhookServer(w render.Workload, server *ComponentServer, bind webhookBind) render.Workload {
	w.Args = append(w.Args, h.TLSFlags...)
	w.HealthPort = bind.health
	w.HostNetwork = bind.hostNetwork
	w.Resources = h.servingResources()
	w.Ports = append(w.Ports, render.ContainerPort("webhook", bind.port))
	w.Volumes = append(w.Volumes, render.SecretVolume(webhookCertVolume, server.Secret, false))
	w.Mounts = append(w.Mounts, render.VolumeMount(webhookCertVolume, webhookCertPath, true))
	return w
}

// webhookBind is where a webhook server listens.
type webhookBind struct {
	port, health, metrics int32
	hostNetwork           bool
}

func (b webhookBind) bindFlags() []string {
	number := func(n int32) string { return strconv.Itoa(int(n)) }
	return []string{"--port=" + number(b.port), "--health-probe-port=" + number(b.health), "--metrics-port=" + number(b.metrics)}
}

// webhookOptions returns what the spec says of a webhook in the hub's mode. In
// mode Default its Service has a port of its own.
func webhookOptions(
	h Hub,
	ofDefault func(*operatorv1.DefaultClusterManagerConfiguration) operatorv1.DefaultWebhookConfiguration,
	ofHosted func(*operatorv1.HostedClusterManagerConfiguration) operatorv1.HostedWebhookConfiguration,
) operatorv1.HostedWebhookConfiguration {
	option := h.Spec.DeployOption
	var chosen operatorv1.HostedWebhookConfiguration
	switch {
	case h.IsHosted() && option.Hosted != nil:
		chosen = ofHosted(option.Hosted)
	case !h.IsHosted() && option.Default != nil:
		chosen.BindConfiguration = ofDefault(option.Default).BindConfiguration
	}
	switch {
	case !h.IsHosted():
		chosen.Port = webhookServicePort
	case chosen.Port == 0: // what clients send that leave the field out
		chosen.Port = httpsPort
	}
	return chosen
}

// resolveBind returns what a webhook listens on.
func resolveBind(spec *operatorv1.BindConfiguration) webhookBind {
	b := webhookBind{port: webhookPort, health: healthPort, metrics: metricsPort}
	if spec == nil {
		return b
	}
	// A port of 0 is what clients send that leave the field out.
	if spec.Port != 0 {
		b.port = spec.Port
	}
	if spec.HealthProbePort != 0 {
		b.health = spec.HealthProbePort
	}
	if spec.MetricsPort != 0 {
		b.metrics = spec.MetricsPort
	}
	b.hostNetwork = spec.HostNetwork
	return b
}

// imageOr returns the image of the spec, or our own where the spec has none.
func imageOr(spec, unset, own string) string {
	if spec == "" || spec == unset {
		return own
	}
	return spec
}

// allowanceFlags are for both programs that write works of namespaces: they have the room together,
// and what is written in a second.
func (h Hub) allowanceFlags() []string {
	var flags []string
	if h.SharedWorkBytesMax != "" {
		flags = append(flags, "--shared-work-bytes-max="+h.SharedWorkBytesMax)
	}
	if h.PropagationEnabled() && h.Work.Enabled(features.ManifestWorkReplicaSet) {
		flags = append(flags, "--work-writers=2")
	}
	return flags
}

func gateFlags(gates features.GateSet) []string {
	var flags []string
	for _, gate := range gates.ChangedFlags() {
		flags = append(flags, "--feature-gates="+gate)
	}
	return flags
}
