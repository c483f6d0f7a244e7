// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// dependencyRow is what an object refers to, sorted.
type dependencyRow struct {
	kind, object string
	needs        []string
}

func (r dependencyRow) of() string { return r.kind }

func TestDependenciesAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	const (
		pod      = `{serviceAccountName: robot, containers: [{name: main, envFrom: [{configMapRef: {name: settings}}]}], volumes: [{name: v, secret: {secretName: keys}}]}`
		template = `{spec: ` + pod + `}`
		flux     = "source.toolkit.fluxcd.io/"
	)
	ofPod := []string{"v1 ConfigMap shop/settings", "v1 Secret shop/keys", "v1 ServiceAccount shop/robot"}
	rows := map[string]dependencyRow{
		"an AdvancedCronJob of Jobs has a pod template":       {"AdvancedCronJob", `spec: {template: {jobTemplate: {spec: {template: ` + template + `}}}}`, ofPod},
		"one of BroadcastJobs, too":                           {"AdvancedCronJob", `spec: {template: {broadcastJobTemplate: {spec: {template: ` + template + `}}}}`, ofPod},
		"a SidecarSet adds containers to pods of a namespace": {"SidecarSet", `spec: {namespace: web, containers: [{name: side, env: [{name: A, valueFrom: {secretKeyRef: {name: token, key: a}}}]}]}`, []string{"v1 Secret web/token"}},
		"a SidecarSet mounts volumes, once each": {
			"SidecarSet", `spec: {containers: [{name: side, envFrom: [{configMapRef: {name: settings}}]}], initContainers: [{name: i, envFrom: [{configMapRef: {name: settings}}]}], volumes: [{name: v, secret: {secretName: keys}}]}`,
			[]string{"v1 ConfigMap shop/settings", "v1 Secret shop/keys"},
		},
		"a subset of a UnitedDeployment changes its pods": {
			"UnitedDeployment", `spec: {template: {cloneSetTemplate: {spec: {template: ` + template + `}}}, topology: {subsets: [{name: a, patch: {spec: {containers: [{name: main, envFrom: [{secretRef: {name: east}}]}]}}}, {name: b}]}}`,
			append([]string{"v1 Secret shop/east"}, ofPod...),
		},
		"a UnitedDeployment has a template with a pod":        {"UnitedDeployment", `spec: {template: {statefulSetTemplate: {spec: {template: ` + template + `}}}}`, ofPod},
		"a Workflow is made from a template":                  {"Workflow", `spec: {workflowTemplateRef: {name: build}}`, []string{"argoproj.io/v1alpha1 WorkflowTemplate shop/build"}},
		"a Workflow has accounts for what Argo adds to pods":  {"Workflow", `spec: {executor: {serviceAccountName: robot}, templateDefaults: {executor: {serviceAccountName: default}}, templates: [{name: a, executor: {serviceAccountName: other}}]}`, []string{"v1 ServiceAccount shop/other", "v1 ServiceAccount shop/robot"}},
		"a Workflow has pods":                                 {"Workflow", `spec: {serviceAccountName: robot, volumes: [{name: v, secret: {secretName: keys}}], templates: [{name: a, container: {envFrom: [{configMapRef: {name: settings}}]}}]}`, ofPod},
		"a Job of Volcano has tasks, and volumes for all":     {"Job", `spec: {volumes: [{mountPath: /d, volumeClaimName: data}], tasks: [{name: a, template: ` + template + `}]}`, append([]string{"v1 PersistentVolumeClaim shop/data"}, ofPod...)},
		"a FlinkDeployment has a pod template and an account": {"FlinkDeployment", `spec: {serviceAccount: flink, podTemplate: {spec: {containers: [{name: flink-main-container, envFrom: [{secretRef: {name: s3}}]}]}}}`, []string{"v1 Secret shop/s3", "v1 ServiceAccount shop/flink"}},
		"a RayCluster has a head and workers":                 {"RayCluster", `spec: {headGroupSpec: {template: ` + template + `}, workerGroupSpecs: [{template: {spec: {containers: [{name: w, envFrom: [{secretRef: {name: s3}}]}]}}}]}`, append([]string{"v1 Secret shop/s3"}, ofPod...)},
		"a RayJob has a cluster":                              {"RayJob", `spec: {rayClusterSpec: {headGroupSpec: {template: ` + template + `}}}`, ofPod},
		"a RayService has a cluster":                          {"RayService", `spec: {rayClusterConfig: {headGroupSpec: {template: ` + template + `}}}`, ofPod},
		"a SparkApplication mounts what driver and executor do": {
			"SparkApplication", `spec: {driver: {serviceAccount: spark, configMaps: [{name: settings, path: /c}]}, executor: {secrets: [{name: keys, path: /s, secretType: Generic}]}}`,
			[]string{"v1 ConfigMap shop/settings", "v1 Secret shop/keys", "v1 ServiceAccount shop/spark"},
		},
		"a HelmRelease has a chart from a source, and values": {
			"HelmRelease", `spec: {chart: {spec: {chart: a, sourceRef: {kind: HelmRepository, name: charts, namespace: flux-system}}}, valuesFrom: [{kind: Secret, name: values}]}`,
			[]string{flux + "v1beta2 HelmRepository flux-system/charts", "v1 Secret shop/values"},
		},
		"a Kustomization has a source, variables, and a key to decrypt": {
			"Kustomization", `spec: {sourceRef: {kind: GitRepository, name: git}, postBuild: {substituteFrom: [{kind: ConfigMap, name: vars}]}, decryption: {provider: sops, secretRef: {name: sops}}, dependsOn: [{name: base}]}`,
			[]string{"kustomize.toolkit.fluxcd.io/v1 Kustomization shop/base", flux + "v1 GitRepository shop/git", "v1 ConfigMap shop/vars", "v1 Secret shop/sops"},
		},
		"a HelmChart has a source": {"HelmChart", `spec: {chart: a, sourceRef: {kind: HelmRepository, name: charts}}`, []string{flux + "v1beta2 HelmRepository shop/charts"}},
		"a GitRepository verifies commits, and includes others": {
			"GitRepository", `spec: {secretRef: {name: token}, verify: {secretRef: {name: pgp}}, include: [{repository: {name: other}}]}`,
			[]string{flux + "v1 GitRepository shop/other", "v1 Secret shop/pgp", "v1 Secret shop/token"},
		},
		"a Bucket has credentials":         {"Bucket", `spec: {secretRef: {name: s3}}`, []string{"v1 Secret shop/s3"}},
		"a HelmRepository has credentials": {"HelmRepository", `spec: {secretRef: {name: token}, certSecretRef: {name: tls}}`, []string{"v1 Secret shop/tls", "v1 Secret shop/token"}},
		"an OCIRepository pulls with an account": {
			"OCIRepository", `spec: {secretRef: {name: pull}, serviceAccountName: robot}`, []string{"v1 Secret shop/pull", "v1 ServiceAccount shop/robot"},
		},
		"a ClusterPolicy reads a ConfigMap, by its namespace": {
			"ClusterPolicy", `spec: {rules: [{name: a, context: [{name: c, configMap: {name: list, namespace: kyverno}}]}]}`, []string{"v1 ConfigMap kyverno/list"},
		},
		"a Policy reads a ConfigMap": {"Policy", `spec: {rules: [{name: a, context: [{name: c, configMap: {name: list, namespace: shop}}]}]}`, []string{"v1 ConfigMap shop/list"}},
	}
	for _, kind := range []string{"BroadcastJob", "CloneSet", "DaemonSet", "StatefulSet", "Notebook"} {
		rows[fmt.Sprintf("a %s has a pod template", kind)] = dependencyRow{kind, `spec: {template: ` + template + `}`, ofPod}
	}
	for kind, roles := range map[string]string{"MPIJob": "mpiReplicaSpecs", "PyTorchJob": "pytorchReplicaSpecs", "TFJob": "tfReplicaSpecs"} {
		rows[fmt.Sprintf("a %s has pod templates for its roles", kind)] = dependencyRow{kind, `spec: {` + roles + `: {Worker: {template: ` + template + `}}}`, ofPod}
	}
	eachKindHasARow(t, lua.DependencyInterpretation, rows)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needed, err := operationsOf(t, row.kind).Dependencies(object(t, row.kind, row.object))
			expect.NoError(t, err)
			var got []string
			for _, d := range needed {
				got = append(got, fmt.Sprintf("%s %s %s/%s", d.APIVersion, d.Kind, d.Namespace, d.Name))
			}
			slices.Sort(got)
			if diff := cmp.Diff(slices.Sorted(slices.Values(row.needs)), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
