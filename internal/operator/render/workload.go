// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

const (
	// AppLabel is the label by which Deployments, Services and NetworkPolicies
	// find pods.
	AppLabel = "app"

	// Weights of the wish that replicas run in different zones and on different nodes.
	spreadZoneWeight = 70
	spreadHostWeight = 30

	// How often the kubelet asks whether a container lives and is ready.
	// A liveness probe is for a deadlock. On a machine that is starved, a program which
	// is killed for slow answers starves the machine more: it is given two minutes.
	livenessPeriodSeconds   = 10
	livenessTimeoutSeconds  = 10
	livenessFailures        = 12
	startupPeriodSeconds    = 1
	startupFailures         = 300
	readinessPeriodSeconds  = 3
	readinessTimeoutSeconds = 5
	readinessFailures       = 3

	healthPortName = "health"

	// How much of the memory limit of a container Go may use, in percent.
	memoryOfGo = 90
)

// Workload is a component that runs as a Deployment. What all components have
// in common is not a field: they run without any privilege on a read-only
// file system, answer /healthz and /readyz, and wish to be spread over zones
// and nodes.
type Workload struct {
	// Meta marks the Deployment. Its labels are on the pods, too; its
	// annotations are not.
	ResourceMeta
	// App is the label "app" of the pods.
	App string
	// Container is the name of the container. Defaults to App.
	Container string
	// ServiceAccount is the identity of the pods.
	ServiceAccount string
	// Image is the image of the container, PullPolicy how it is pulled.
	// PullPolicy defaults to IfNotPresent.
	Image      string
	PullPolicy corev1.PullPolicy
	// PullSecrets are names of secrets of the same namespace.
	PullSecrets []string
	// Args is the whole command; the image has no entrypoint.
	Args []string
	Env  []*corev1ac.EnvVarApplyConfiguration
	// Replicas may be 0.
	Replicas int32
	// Resources of the container; see Resources.
	Resources corev1.ResourceRequirements
	// Where and how the pods are placed.
	NodeSelector      map[string]string
	Tolerations       []corev1.Toleration
	PriorityClassName string
	HostAliases       []corev1.HostAlias
	HostNetwork       bool
	// HealthPort serves /healthz and /readyz, over HealthScheme, which defaults to
	// HTTP.
	HealthPort   int32
	HealthScheme corev1.URIScheme
	// Ports are further ports by name.
	Ports []*corev1ac.ContainerPortApplyConfiguration
	// Volumes of the pod and where the container mounts them.
	Volumes []*corev1ac.VolumeApplyConfiguration
	Mounts  []*corev1ac.VolumeMountApplyConfiguration
	// Sidecars are further containers of the pods.
	Sidecars []SidecarContainer
	// PodAnnotations change the pods, and so roll them when they change.
	PodAnnotations map[string]string
	// Recreate stops the old pod before the new one starts.
	Recreate bool
}

// SidecarContainer is a further container of a workload's pods. Image, environment,
// resources and privileges are those of the workload's own.
type SidecarContainer struct {
	// Container is its name.
	Container string
	// Args is the whole command.
	Args []string
	// HealthPort serves /healthz and /readyz over HTTP. No other container of the pod
	// has it.
	HealthPort int32
	// Ports are further ports by name.
	Ports []*corev1ac.ContainerPortApplyConfiguration
	// Mounts are where it mounts volumes of the pod.
	Mounts []*corev1ac.VolumeMountApplyConfiguration
}

// DefaultedResources returns the resources of a container for the type of a
// resourceRequirement: "BestEffort" has none, "ResourceRequirement" has those
// given, and any other, the default, requests 2m CPU and 16Mi memory.
func DefaultedResources(kind string, given *corev1.ResourceRequirements) corev1.ResourceRequirements {
	switch {
	case kind == "BestEffort":
		return corev1.ResourceRequirements{}
	case kind == "ResourceRequirement" && given != nil:
		return *given
	default:
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("2m"),
			corev1.ResourceMemory: resource.MustParse("16Mi"),
		}}
	}
}

// RenderDeployment returns the Deployment of the workload.
func (w Workload) RenderDeployment() *appsv1ac.DeploymentApplyConfiguration {
	selector := map[string]string{AppLabel: w.App}
	spec := appsv1ac.DeploymentSpec().
		WithReplicas(w.Replicas).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
		WithTemplate(corev1ac.PodTemplateSpec().
			WithLabels(w.Labels).
			WithLabels(selector).
			WithAnnotations(w.PodAnnotations).
			WithSpec(w.podSpec()))
	if w.Recreate {
		spec.WithStrategy(appsv1ac.DeploymentStrategy().WithType("Recreate"))
	}
	return appsv1ac.Deployment(w.Name, w.Namespace).
		WithLabels(w.Labels).
		WithLabels(selector).
		WithAnnotations(w.Annotations).
		WithSpec(spec)
}

func (w Workload) podSpec() *corev1ac.PodSpecApplyConfiguration {
	pod := corev1ac.PodSpec().
		WithServiceAccountName(w.ServiceAccount).
		WithAffinity(corev1ac.Affinity().WithPodAntiAffinity(w.spreadAffinity())).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(w.allContainers()...).
		WithVolumes(w.Volumes...).
		WithNodeSelector(w.NodeSelector).
		WithTolerations(TolerationConfigs(w.Tolerations)...)
	for _, name := range w.PullSecrets {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(name))
	}
	for _, alias := range w.HostAliases {
		pod.WithHostAliases(corev1ac.HostAlias().WithIP(alias.IP).WithHostnames(alias.Hostnames...))
	}
	if w.PriorityClassName != "" {
		pod.WithPriorityClassName(w.PriorityClassName)
	}
	if w.HostNetwork {
		// Without this the pod would use the node's resolver and find no Service.
		pod.WithHostNetwork(true).WithDNSPolicy(corev1.DNSClusterFirstWithHostNet)
	}
	return pod
}

// allContainers returns the workload's own container and the sidecars.
func (w Workload) allContainers() []*corev1ac.ContainerApplyConfiguration {
	own := SidecarContainer{Container: cmp.Or(w.Container, w.App), Args: w.Args, HealthPort: w.HealthPort, Ports: w.Ports, Mounts: w.Mounts}
	main := w.renderContainer(own, healthPortName)
	if w.HealthScheme != "" {
		main.StartupProbe.HTTPGet.WithScheme(w.HealthScheme)
		main.LivenessProbe.HTTPGet.WithScheme(w.HealthScheme)
		main.ReadinessProbe.HTTPGet.WithScheme(w.HealthScheme)
	}
	list := []*corev1ac.ContainerApplyConfiguration{main}
	for n, sidecar := range w.Sidecars {
		list = append(list, w.renderContainer(sidecar, fmt.Sprintf("%s-%d", healthPortName, n+1))) // names of ports are of the pod
	}
	return list
}

func (w Workload) renderContainer(c SidecarContainer, healthPort string) *corev1ac.ContainerApplyConfiguration {
	pullPolicy := w.PullPolicy
	if pullPolicy == "" {
		pullPolicy = corev1.PullIfNotPresent
	}
	return corev1ac.Container().
		WithName(c.Container).
		WithImage(w.Image).
		WithImagePullPolicy(pullPolicy).
		WithArgs(c.Args...).
		WithEnv(w.Env...).
		WithEnv(memoryLimitOfGo(w.Resources)...).
		WithResources(ResourceRequirements(w.Resources)).
		WithPorts(corev1ac.ContainerPort().WithName(healthPort).WithContainerPort(c.HealthPort).WithProtocol(corev1.ProtocolTCP)).
		WithPorts(c.Ports...).
		WithVolumeMounts(c.Mounts...).
		WithStartupProbe(c.healthProbe("/healthz", startupPeriodSeconds, startupFailures).WithTimeoutSeconds(livenessTimeoutSeconds)).
		WithLivenessProbe(c.healthProbe("/healthz", livenessPeriodSeconds, livenessFailures).WithTimeoutSeconds(livenessTimeoutSeconds)).
		WithReadinessProbe(c.healthProbe("/readyz", readinessPeriodSeconds, readinessFailures).WithTimeoutSeconds(readinessTimeoutSeconds)).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithPrivileged(false).
			WithReadOnlyRootFilesystem(true).
			WithRunAsNonRoot(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))).
		// The last lines of the log are the reason of a crash, where kubectl shows it.
		WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
}

func (c SidecarContainer) healthProbe(path string, period, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().
			WithPath(path).WithPort(intstr.FromInt32(c.HealthPort)).WithScheme(corev1.URISchemeHTTP)).
		WithPeriodSeconds(period).WithFailureThreshold(failures)
}

func (w Workload) spreadAffinity() *corev1ac.PodAntiAffinityApplyConfiguration {
	term := func(weight int32, topologyKey string) *corev1ac.WeightedPodAffinityTermApplyConfiguration {
		return corev1ac.WeightedPodAffinityTerm().WithWeight(weight).
			WithPodAffinityTerm(corev1ac.PodAffinityTerm().
				WithTopologyKey(topologyKey).
				WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{AppLabel: w.App})))
	}
	return corev1ac.PodAntiAffinity().WithPreferredDuringSchedulingIgnoredDuringExecution(
		term(spreadZoneWeight, corev1.LabelTopologyZone),
		term(spreadHostWeight, corev1.LabelHostname),
	)
}

// EnvValue is an environment variable with a fixed value.
func EnvValue(name, value string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValue(value)
}

// EnvField is an environment variable with the value of a field of the pod,
// for example "metadata.name".
func EnvField(name, path string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).
		WithValueFrom(corev1ac.EnvVarSource().WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath(path)))
}

// PodEnv tells a container which pod it is in, which elections of leaders need.
func PodEnv() []*corev1ac.EnvVarApplyConfiguration {
	return []*corev1ac.EnvVarApplyConfiguration{
		EnvField("POD_NAME", "metadata.name"),
		EnvField("POD_NAMESPACE", "metadata.namespace"),
		EnvField("POD_UID", "metadata.uid"),
	}
}

// memoryLimitOfGo has a program in Go collect garbage before it reaches the limit of its
// container: what a program holds for a moment may be far more than what it needs.
func memoryLimitOfGo(r corev1.ResourceRequirements) []*corev1ac.EnvVarApplyConfiguration {
	limit, found := r.Limits[corev1.ResourceMemory]
	if !found {
		return nil
	}
	return []*corev1ac.EnvVarApplyConfiguration{EnvValue("GOMEMLIMIT", strconv.FormatInt(limit.Value()/100*memoryOfGo, 10))}
}

// EnvValues are the variables that have a fixed value, for example those of a
// proxy; others are left out.
func EnvValues(vars []corev1.EnvVar) []*corev1ac.EnvVarApplyConfiguration {
	var list []*corev1ac.EnvVarApplyConfiguration
	for _, v := range vars {
		if v.ValueFrom == nil {
			list = append(list, EnvValue(v.Name, v.Value))
		}
	}
	return list
}

// ContainerPort is a named TCP port of a container.
func ContainerPort(name string, number int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(number).WithProtocol(corev1.ProtocolTCP)
}

// SecretVolume is a volume with the keys of a secret as files. With optional,
// pods start without the secret and get the files when it appears.
func SecretVolume(name, secret string, optional bool) *corev1ac.VolumeApplyConfiguration {
	source := corev1ac.SecretVolumeSource().WithSecretName(secret)
	if optional {
		source.WithOptional(true)
	}
	return corev1ac.Volume().WithName(name).WithSecret(source)
}

// ScratchVolume is an empty directory that lives as long as the pod. With
// memory it never reaches a disk.
func ScratchVolume(name string, memory bool) *corev1ac.VolumeApplyConfiguration {
	source := corev1ac.EmptyDirVolumeSource()
	if memory {
		source.WithMedium(corev1.StorageMediumMemory)
	}
	return corev1ac.Volume().WithName(name).WithEmptyDir(source)
}

// VolumeMount mounts the volume at the path.
func VolumeMount(volume, path string, readOnly bool) *corev1ac.VolumeMountApplyConfiguration {
	mount := corev1ac.VolumeMount().WithName(volume).WithMountPath(path)
	if readOnly {
		mount.WithReadOnly(true)
	}
	return mount
}

// TolerationConfigs returns the tolerations to apply.
func TolerationConfigs(list []corev1.Toleration) []*corev1ac.TolerationApplyConfiguration {
	converted := make([]*corev1ac.TolerationApplyConfiguration, 0, len(list))
	for _, t := range list {
		toleration := corev1ac.Toleration()
		if t.Key != "" {
			toleration.WithKey(t.Key)
		}
		if t.Operator != "" {
			toleration.WithOperator(t.Operator)
		}
		if t.Value != "" {
			toleration.WithValue(t.Value)
		}
		if t.Effect != "" {
			toleration.WithEffect(t.Effect)
		}
		if t.TolerationSeconds != nil {
			toleration.WithTolerationSeconds(*t.TolerationSeconds)
		}
		converted = append(converted, toleration)
	}
	return converted
}

// ResourceRequirements returns the resources to apply, as the API server stores
// them.
func ResourceRequirements(r corev1.ResourceRequirements) *corev1ac.ResourceRequirementsApplyConfiguration {
	requirements := corev1ac.ResourceRequirements()
	if len(r.Requests) > 0 {
		requirements.WithRequests(canonicalQuantities(r.Requests))
	}
	if len(r.Limits) > 0 {
		requirements.WithLimits(canonicalQuantities(r.Limits))
	}
	for _, claim := range r.Claims {
		c := corev1ac.ResourceClaim().WithName(claim.Name)
		if claim.Request != "" {
			c.WithRequest(claim.Request)
		}
		requirements.WithClaims(c)
	}
	return requirements
}

// canonicalQuantities writes quantities as the API server stores them ("1", not "1000m"),
// so that a comparison with what is stored finds no difference.
func canonicalQuantities(list corev1.ResourceList) corev1.ResourceList {
	result := corev1.ResourceList{}
	for name, quantity := range list {
		q := quantity.DeepCopy()
		q.Add(resource.Quantity{}) // drops the text that it was parsed from
		result[name] = q
	}
	return result
}
