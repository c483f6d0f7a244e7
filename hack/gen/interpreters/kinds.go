// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/native"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
)

// documentedKind is a kind with the operations that there is a rule for.
type documentedKind struct {
	kind    schema.GroupKind
	version string
	rules   map[string]bool
}

// shippedKinds are those of others. All of them have a status.
func shippedKinds() ([]documentedKind, error) {
	names := map[lua.Operation]string{
		lua.ReplicaResource: replicas, lua.ReplicaRevision: revised, lua.ComponentResource: components, lua.Retention: retained,
		lua.StatusReflection: reported, lua.StatusAggregation: status, lua.HealthInterpretation: judged, lua.DependencyInterpretation: needs,
	}
	var all []documentedKind
	for _, kind := range shipped.ThirdPartyGroupKinds() {
		customization, err := shipped.ReadCustomization(kind)
		if err != nil {
			return nil, err
		}
		says := customized.LuaCustomizationOf(customization)
		d := documentedKind{kind: kind, version: says.Kind.Version, rules: map[string]bool{reported: true, status: true}}
		for operation := range says.Scripts {
			d.rules[names[operation]] = true
		}
		all = append(all, d)
	}
	return all, nil
}

// nativeKinds are those of Kubernetes that the native layer knows.
func nativeKinds() []documentedKind {
	layer := native.NewKubernetesKinds()
	kinds := map[schema.GroupKind]bool{
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: true,
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:             true,
		{Group: "multicluster.x-k8s.io", Kind: "ServiceImport"}:           true,
	}
	for kind := range scheme.Scheme.AllKnownTypes() {
		kinds[kind.GroupKind()] = true
	}
	var all []documentedKind
	for _, kind := range slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupKind) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind))
	}) {
		known := layer.Operations(kind.WithVersion("v1"))
		if !reflect.ValueOf(known).IsZero() {
			all = append(all, documentedKind{kind: kind, rules: nativeRules(known)})
		}
	}
	return all
}

// nativeRules returns which operations a kind of Kubernetes has rules for. What has replicas
// leaves them to the cluster where the template is labelled so.
func nativeRules(known interpret.Operations) map[string]bool {
	health := known.Health != nil || known.Verdict != nil
	return map[string]bool{
		replicas: known.Replicas != nil, revised: known.Revise != nil, components: known.Components != nil,
		sent: known.Prune != nil, retained: known.Retained != nil || known.Revise != nil,
		reported: health || known.Aggregate != nil, status: known.Aggregate != nil, judged: health, needs: known.Dependencies != nil,
	}
}

// karmadaOperations are the operations that Karmada has a rule for, by kind, but for what is reported: it
// reports a status of each kind. A definition, an APIService and a Namespace of its hub keep their own.
func karmadaOperations() map[string]string {
	const source = ".source.toolkit.fluxcd.io"
	return map[string]string{
		"AdvancedCronJob.apps.kruise.io": "status needs", "BroadcastJob.apps.kruise.io": "replicas revised retained status health needs",
		"CloneSet.apps.kruise.io": "replicas revised status health needs", "DaemonSet.apps.kruise.io": "status health needs",
		"SidecarSet.apps.kruise.io": "replicas status health needs", "StatefulSet.apps.kruise.io": "replicas revised status health needs",
		"UnitedDeployment.apps.kruise.io": "replicas revised status health needs", "Workflow.argoproj.io": "replicas revised retained health needs",
		"Job.batch.volcano.sh": "components status health", "FlinkDeployment.flink.apache.org": "replicas components status health",
		"HelmRelease.helm.toolkit.fluxcd.io": "retained status health needs", "Kustomization.kustomize.toolkit.fluxcd.io": "retained status health needs",
		"MPIJob.kubeflow.org": "components status health needs", "Notebook.kubeflow.org": "replicas status health",
		"PyTorchJob.kubeflow.org": "components status health needs", "TFJob.kubeflow.org": "components status health needs",
		"ClusterPolicy.kyverno.io": "status health", "Policy.kyverno.io": "status health",
		"RayCluster.ray.io": "components status health", "RayJob.ray.io": "components status health needs",
		"RayService.ray.io": "replicas revised components status health needs", "SparkApplication.sparkoperator.k8s.io": "components status health",
		"Bucket" + source: "retained status health needs", "GitRepository" + source: "retained status health needs", "HelmChart" + source: "retained status health needs",
		"HelmRepository" + source: "retained status health needs", "OCIRepository" + source: "retained status health needs",

		"Deployment.apps": "replicas revised sent retained status health needs", "ReplicaSet.apps": "replicas revised status health needs",
		"StatefulSet.apps": "replicas revised status health needs", "DaemonSet.apps": "status health needs",
		"Job.batch": "replicas revised sent retained status needs", "CronJob.batch": "status needs", "Pod": "replicas retained status health needs",
		"Service": "sent retained status health", "Ingress.networking.k8s.io": "status health needs",
		"PersistentVolumeClaim": "sent retained status health", "PersistentVolume": "retained status",
		"ServiceAccount": "sent retained", "Secret": "sent retained", "PodDisruptionBudget.policy": "status health",
		"HorizontalPodAutoscaler.autoscaling": "status", "ServiceImport.multicluster.x-k8s.io": "needs",
		"CustomResourceDefinition.apiextensions.k8s.io": "status", "APIService.apiregistration.k8s.io": "status", "Namespace": "status",
		"ReplicationController": "", "ClusterRole.rbac.authorization.k8s.io": "",
	}
}
