// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/server/features"
)

// Where the agents find their secrets as files.
const (
	bootstrapDir = "/spoke/bootstrap"
	hubDir       = "/spoke/hub-kubeconfig"

	memberDir = "/spoke/config"

	bootstrapKubeconfig = bootstrapDir + "/kubeconfig"
	hubKubeconfig       = hubDir + "/kubeconfig"
	memberKubeconfig    = memberDir + "/kubeconfig"
	// MemberToken is the file that the kubeconfig of the member has to name for
	// its token, which is renewed without a new kubeconfig.
	MemberToken = memberDir + "/token"
)

// memberHashAnnotation on pods has the hash of the kubeconfig of the member that
// they were started with.
const memberHashAnnotation = "capstan.io/member-kubeconfig-hash"

// healthPort is the port of /healthz and /readyz, the agents' default.
const healthPort = 8000

// AgentOptions is what the agents are installed with besides their Klusterlet.
type AgentOptions struct {
	// Image is used where the Klusterlet names none.
	Image string
	// PullSecret is a secret in the agents' namespace. Defaults to "", none.
	PullSecret string
	// Env is added to the environment of the agents, for example a proxy.
	Env []corev1.EnvVar
	// Replicas of the agents.
	Replicas int32
	// WorkReplicas of the work agent in mode Default: 0 until it has a credential.
	WorkReplicas int32
	// ClusterName is the name that the member has joined under, for the work
	// agent. Empty as long as it is unknown.
	ClusterName string
	// Gates of the agents.
	RegistrationGates, WorkGates features.GateSet
	// HubPorts are the TCP ports of the hub's API server, and of the member's if
	// the agents are hosted, for the network policies, besides 443 and 6443.
	HubPorts []int32
	// MemberKubeconfigs has for each secret with a kubeconfig of the member a hash
	// of it: agents that are hosted read theirs once, so they start anew with it.
	MemberKubeconfigs map[string]string
}

// KlusterletLabels are the labels of everything that we install for a Klusterlet.
func KlusterletLabels(klusterlet *operatorv1.Klusterlet) map[string]string {
	return map[string]string{operatorv1.LabelCreatedByKlusterlet: klusterlet.Name}
}

func agentMeta(klusterlet *operatorv1.Klusterlet, name string) render.ResourceMeta {
	return render.ResourceMeta{Name: name, Namespace: AgentNamespace(klusterlet), Labels: KlusterletLabels(klusterlet)}
}

// AgentDeployments returns the Deployments of the agents: two, or one in mode Singleton.
func AgentDeployments(klusterlet *operatorv1.Klusterlet, o AgentOptions) []render.Object {
	if IsSingletonMode(klusterlet) {
		return []render.Object{singletonAgent(klusterlet, o).RenderDeployment()}
	}
	return []render.Object{
		registrationAgent(klusterlet, o).RenderDeployment(),
		workAgent(klusterlet, o).RenderDeployment(),
	}
}

func registrationAgent(klusterlet *operatorv1.Klusterlet, o AgentOptions) render.Workload {
	w := baseAgentWorkload(klusterlet, o)
	w.ResourceMeta = agentMeta(klusterlet, RegistrationDeployment(klusterlet))
	w.App = RegistrationApp
	w.Container = "registration-controller"
	w.ServiceAccount = RegistrationAccount(klusterlet)
	w.Image = imageOr(klusterlet.Spec.RegistrationImagePullSpec, o.Image)
	w.Args = registrationArgs(klusterlet, o)
	if IsHostedMode(klusterlet) {
		w = hostedAgent(w, RegistrationMemberSecret(klusterlet), o)
	}
	w.Volumes = append(w.Volumes,
		render.SecretVolume("bootstrap-secret", operatorv1.BootstrapHubKubeConfigSecret, true),
		// The agent writes the hub's kubeconfig here itself as soon as it has one,
		// so it does not wait for the kubelet to notice a change of the secret.
		render.ScratchVolume("hub-kubeconfig", true))
	w.Mounts = append(w.Mounts,
		render.VolumeMount("bootstrap-secret", bootstrapDir, true),
		render.VolumeMount("hub-kubeconfig", hubDir, false))
	return w
}

func workAgent(klusterlet *operatorv1.Klusterlet, o AgentOptions) render.Workload {
	w := baseAgentWorkload(klusterlet, o)
	w.ResourceMeta = agentMeta(klusterlet, WorkDeployment(klusterlet))
	w.App = WorkApp
	w.ServiceAccount = WorkAccount(klusterlet)
	w.Image = imageOr(klusterlet.Spec.WorkImagePullSpec, o.Image)
	w.Args = workArgs(klusterlet, o)
	w.Replicas = o.WorkReplicas
	if IsHostedMode(klusterlet) {
		w = hostedAgent(w, WorkMemberSecret(klusterlet), o)
	}
	w.Volumes = append(w.Volumes, render.SecretVolume("hub-kubeconfig-secret", operatorv1.HubKubeConfigSecret, true))
	w.Mounts = append(w.Mounts, render.VolumeMount("hub-kubeconfig-secret", hubDir, true))
	return w
}

func singletonAgent(klusterlet *operatorv1.Klusterlet, o AgentOptions) render.Workload {
	w := registrationAgent(klusterlet, o)
	w.App = SingletonApp
	w.Container = ""
	w.ServiceAccount = WorkAccount(klusterlet)
	w.Image = imageOr(klusterlet.Spec.ImagePullSpec, o.Image)
	w.Args = singletonArgs(klusterlet, o)
	return w
}

// hostedAgent lets an agent work on its member with the kubeconfig in a secret.
func hostedAgent(w render.Workload, secret string, o AgentOptions) render.Workload {
	w.Volumes = append(w.Volumes, render.SecretVolume("member-kubeconfig", secret, false))
	w.Mounts = append(w.Mounts, render.VolumeMount("member-kubeconfig", memberDir, true))
	w.PodAnnotations[memberHashAnnotation] = o.MemberKubeconfigs[secret]
	return w
}

// baseAgentWorkload has what all agents have in common.
func baseAgentWorkload(klusterlet *operatorv1.Klusterlet, o AgentOptions) render.Workload {
	spec := klusterlet.Spec
	w := render.Workload{
		Replicas:          o.Replicas,
		Resources:         agentResources(spec.ResourceRequirement),
		NodeSelector:      spec.NodePlacement.NodeSelector,
		Tolerations:       spec.NodePlacement.Tolerations,
		PriorityClassName: spec.PriorityClassName,
		HealthPort:        healthPort,
		Env:               append(render.PodEnv(), render.EnvValues(o.Env)...),
		Volumes:           []*corev1ac.VolumeApplyConfiguration{render.ScratchVolume("tmpdir", false)},
		Mounts:            []*corev1ac.VolumeMountApplyConfiguration{render.VolumeMount("tmpdir", "/tmp", false)},
		PodAnnotations: map[string]string{
			// OpenShift puts such pods on the cores that are set aside for its platform.
			"target.workload.openshift.io/management": `{"effect": "PreferredDuringScheduling"}`,
		},
	}
	if o.PullSecret != "" {
		w.PullSecrets = []string{o.PullSecret}
	}
	if alias := spec.HubAPIServerHostAlias; alias != nil {
		w.HostAliases = []corev1.HostAlias{{IP: alias.IP, Hostnames: []string{alias.Hostname}}}
	}
	return w
}

func agentResources(requirement *operatorv1.ResourceRequirement) corev1.ResourceRequirements {
	if requirement == nil {
		return render.DefaultedResources("", nil)
	}
	return render.DefaultedResources(string(requirement.Type), requirement.ResourceRequirements)
}

func imageOr(image, other string) string {
	if image == "" {
		return other
	}
	return image
}
