// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

const (
	// runAs is the user and group of all processes: images of the Kubernetes project
	// name root, and need no more than any other user has.
	runAs = 65532

	// HashAnnotation on pods tells what they read when they started.
	HashAnnotation = "fleet.capstan.io/config-hash"
	// ClosedAnnotation is on API servers that call no webhooks, so that clients must
	// not be led to them.
	ClosedAnnotation = "fleet.capstan.io/closed"

	pkiDir    = "/etc/capstan/pki"
	configDir = "/etc/capstan/config"

	// Weights of the wish that replicas run in different zones and on different nodes.
	spreadZoneWeight = 30
	spreadHostWeight = 70
)

// podComponent is what differs between the pods of the components.
type podComponent struct {
	name      string
	image     string
	command   []string
	env       []*corev1ac.EnvVarApplyConfiguration
	resources *corev1.ResourceRequirements
	// cpu and memory are requested where there are no resources.
	cpu, memory string
	ports       []*corev1ac.ContainerPortApplyConfiguration
	files       []mountedFiles
	volumes     []*corev1ac.VolumeApplyConfiguration
	mounts      []*corev1ac.VolumeMountApplyConfiguration
	probes      componentProbes
	// graceSeconds is how long a pod may take to terminate.
	graceSeconds int64
}

// mountedFiles are those of a Secret or a ConfigMap in a directory.
type mountedFiles struct {
	volume, directory string
	secret, configMap string
}

// componentProbes say where a component tells how it is.
type componentProbes struct {
	port               int32
	scheme             corev1.URIScheme
	live, ready, start string
	// startSeconds is how long it may take until it has started.
	startSeconds int32
}

// How often the kubelet asks, in seconds, and how often it may fail.
const (
	startPeriod, startFailureSeconds  = 2, 2
	livePeriod, liveFailures, timeout = 10, 8, 15
	readyPeriod, readyFailures        = 2, 3
)

// podTemplate returns the pods of a component.
func podTemplate(p Plane, c podComponent) *corev1ac.PodTemplateSpecApplyConfiguration {
	template := corev1ac.PodTemplateSpec().
		WithLabels(p.Labels()).WithLabels(p.PodLabels(c.name)).
		WithSpec(componentPodSpec(p, c))
	if hash := p.Hashes[c.name]; hash != "" {
		template.WithAnnotations(map[string]string{HashAnnotation: hash})
	}
	if c.name == APIServer && p.Hold == fleetv1alpha1.HoldClosed {
		template.WithAnnotations(map[string]string{ClosedAnnotation: "true"})
	}
	return template
}

func componentPodSpec(p Plane, c podComponent) *corev1ac.PodSpecApplyConfiguration {
	pod := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(c.graceSeconds).
		WithAffinity(podAffinity(p, c.name)).
		WithNodeSelector(p.Spec.Placement.NodeSelector).
		WithTolerations(render.TolerationConfigs(p.Spec.Placement.Tolerations)...).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).WithRunAsUser(runAs).WithRunAsGroup(runAs).WithFSGroup(runAs).
			WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(componentContainer(c)).
		WithVolumes(c.volumes...)
	for _, f := range c.files {
		pod.WithVolumes(f.volumeSource())
	}
	for _, secret := range p.Spec.ImagePullSecrets {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(secret.Name))
	}
	if p.Spec.PriorityClassName != "" {
		pod.WithPriorityClassName(p.Spec.PriorityClassName)
	}
	return pod
}

func componentContainer(c podComponent) *corev1ac.ContainerApplyConfiguration {
	made := corev1ac.Container().
		WithName(c.name).
		WithImage(c.image).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithCommand(c.command...).
		WithEnv(c.env...).
		WithPorts(c.ports...).
		WithResources(componentResources(c)).
		WithVolumeMounts(c.mounts...).
		WithStartupProbe(c.probes.httpProbe(c.probes.start, startPeriod, c.probes.startSeconds/startFailureSeconds)).
		WithLivenessProbe(c.probes.httpProbe(c.probes.live, livePeriod, liveFailures)).
		WithReadinessProbe(c.probes.httpProbe(c.probes.ready, readyPeriod, readyFailures)).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithPrivileged(false).
			WithReadOnlyRootFilesystem(true).
			WithRunAsNonRoot(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
	for _, f := range c.files {
		made.WithVolumeMounts(render.VolumeMount(f.volume, f.directory, true))
	}
	return made
}

func componentResources(c podComponent) *corev1ac.ResourceRequirementsApplyConfiguration {
	if c.resources != nil {
		return render.ResourceRequirements(*c.resources)
	}
	return render.ResourceRequirements(corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(c.cpu), corev1.ResourceMemory: resource.MustParse(c.memory),
	}})
}

func (p componentProbes) httpProbe(path string, period, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(p.port)).WithScheme(p.scheme)).
		WithPeriodSeconds(period).WithFailureThreshold(failures).WithTimeoutSeconds(timeout)
}

// secretFiles are the files of a Secret, below the directory of keys.
func secretFiles(name, secret string) mountedFiles {
	return mountedFiles{volume: name, directory: pkiDir + "/" + name, secret: secret}
}

// bundleFiles are those of the ConfigMap with the bundle of an authority.
func bundleFiles(p Plane, authority string) mountedFiles {
	return mountedFiles{volume: authority, directory: pkiDir + "/" + authority, configMap: p.ResourceName(authority)}
}

func (f mountedFiles) volumeSource() *corev1ac.VolumeApplyConfiguration {
	if f.secret != "" {
		return render.SecretVolume(f.volume, f.secret, false)
	}
	return corev1ac.Volume().WithName(f.volume).WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(f.configMap))
}

// podAffinity returns that of the spec, or the wish that replicas are spread.
func podAffinity(p Plane, component string) *corev1ac.AffinityApplyConfiguration {
	if given := p.Spec.Placement.Affinity; given != nil {
		affinity := corev1ac.Affinity()
		if encoded, err := json.Marshal(given); err == nil && json.Unmarshal(encoded, affinity) == nil {
			return affinity // both types have the same JSON
		}
	}
	term := func(weight int32, topologyKey string) *corev1ac.WeightedPodAffinityTermApplyConfiguration {
		return corev1ac.WeightedPodAffinityTerm().WithWeight(weight).
			WithPodAffinityTerm(corev1ac.PodAffinityTerm().
				WithTopologyKey(topologyKey).
				WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(p.PodLabels(component))))
	}
	return corev1ac.Affinity().WithPodAntiAffinity(corev1ac.PodAntiAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(
			term(spreadHostWeight, corev1.LabelHostname),
			term(spreadZoneWeight, corev1.LabelTopologyZone)))
}
