// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-io/capstan/internal/interpret"
)

// twoCPUs is a pod template, for tables.
const twoCPUs = `{spec: {containers: [{name: main, resources: {requests: {cpu: 2}}}]}}`

// replicaRow is how many pods an object asks for, and the CPUs of each.
type replicaRow struct {
	kind, object string
	replicas     int32
	cpu          string
}

func (r replicaRow) of() string { return r.kind }

func replicaRows() map[string]replicaRow {
	return map[string]replicaRow{
		"a BroadcastJob runs spec.parallelism pods at a time":        {"BroadcastJob", `spec: {parallelism: 4, template: ` + twoCPUs + `}`, 4, "2"},
		"a CloneSet has spec.replicas pods":                          {"CloneSet", `spec: {replicas: 3, template: ` + twoCPUs + `}`, 3, "2"},
		"a CloneSet that says nothing has one":                       {"CloneSet", `spec: {template: ` + twoCPUs + `}`, 1, "2"},
		"an advanced StatefulSet has spec.replicas pods":             {"StatefulSet", `spec: {replicas: 5, template: ` + twoCPUs + `}`, 5, "2"},
		"an advanced StatefulSet that says nothing has one":          {"StatefulSet", `spec: {template: ` + twoCPUs + `}`, 1, "2"},
		"a UnitedDeployment of CloneSets divides spec.replicas":      {"UnitedDeployment", `spec: {replicas: 6, template: {cloneSetTemplate: {spec: {template: ` + twoCPUs + `}}}}`, 6, "2"},
		"a UnitedDeployment of Deployments divides spec.replicas":    {"UnitedDeployment", `spec: {replicas: 2, template: {deploymentTemplate: {spec: {template: ` + twoCPUs + `}}}}`, 2, "2"},
		"a Workflow is run once, however many of its pods run":       {"Workflow", `spec: {entrypoint: main, templates: [{name: main, container: {image: a}}]}`, 1, "0"},
		"a FlinkDeployment has job managers and task managers":       {"FlinkDeployment", `spec: {jobManager: {replicas: 1}, taskManager: {replicas: 3, resource: {cpu: 2}}}`, 4, "2"},
		"a FlinkDeployment has task managers for all slots of a job": {"FlinkDeployment", `spec: {flinkConfiguration: {taskmanager.numberOfTaskSlots: "2"}, job: {parallelism: 5}, jobManager: {replicas: 1}, taskManager: {resource: {cpu: 2}}}`, 4, "2"},
		"a Notebook has one pod":                                     {"Notebook", `spec: {template: ` + twoCPUs + `}`, 1, "2"},
	}
}

func TestReplicasAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	for name, row := range replicaRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replicas, needs, err := operationsOf(t, row.kind).Replicas(object(t, row.kind, row.object))
			if err != nil {
				t.Fatal(err)
			}
			if cpu := cpuOf(needs); replicas != row.replicas || cpu != row.cpu {
				t.Errorf("got %d pods with %s CPUs, want %d with %s", replicas, cpu, row.replicas, row.cpu)
			}
		})
	}
}

func cpuOf(needs *interpret.Requirements) string {
	if needs == nil {
		return "0"
	}
	cpu := needs.Requests[corev1.ResourceCPU]
	return cpu.String()
}

// revisionRow is what of an object is otherwise when it gets 7 pods.
type revisionRow struct{ kind, object, revised string }

func (r revisionRow) of() string { return r.kind }

func revisionRows() map[string]revisionRow {
	return map[string]revisionRow{
		"a BroadcastJob runs so many pods at a time":       {"BroadcastJob", `spec: {parallelism: 4, completionPolicy: {type: Always}}`, `spec: {parallelism: 7, completionPolicy: {type: Always}}`},
		"a BroadcastJob on a share of the nodes is not":    {"BroadcastJob", `spec: {parallelism: 50%}`, `spec: {parallelism: 50%}`},
		"a CloneSet has so many":                           {"CloneSet", `spec: {replicas: 3, minReadySeconds: 5}`, `spec: {replicas: 7, minReadySeconds: 5}`},
		"an advanced StatefulSet has so many":              {"StatefulSet", `spec: {replicas: 3, serviceName: a}`, `spec: {replicas: 7, serviceName: a}`},
		"a UnitedDeployment has so many, its subsets stay": {"UnitedDeployment", `spec: {replicas: 3, topology: {subsets: [{name: a, replicas: 1}]}}`, `spec: {replicas: 7, topology: {subsets: [{name: a, replicas: 1}]}}`},
	}
}

func TestRevisionsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	for name, row := range revisionRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			revised, err := operationsOf(t, row.kind).Revise(object(t, row.kind, row.object), 7)
			if err != nil {
				t.Fatal(err)
			}
			if diff := difference(object(t, row.kind, row.revised), revised); len(diff) > 0 {
				t.Errorf("the revised object differs in %v", diff)
			}
		})
	}
}

// componentRow is what parts an object has: how many pods in all, and how many there are, with what CPUs, of those parts
// to which the API gives a name. What the others are called, and in which case, is no matter of the API.
type componentRow struct {
	kind, object string
	pods         int32
	named        map[string]componentSize
}

type componentSize struct {
	pods int32
	cpu  string
}

func (r componentRow) of() string { return r.kind }

func componentRows() map[string]componentRow {
	const ray = `{headGroupSpec: {template: ` + twoCPUs + `}, workerGroupSpecs: [{groupName: small, replicas: 2, numOfHosts: 3, template: ` + twoCPUs + `}]}`
	return map[string]componentRow{
		"a Job of Volcano has a part for each task": {
			"Job", `spec: {tasks: [{name: ps, replicas: 2, minAvailable: 2, template: ` + twoCPUs + `}, {name: worker, replicas: 5, minAvailable: 5, template: ` + twoCPUs + `}]}`,
			7,
			map[string]componentSize{"ps": {2, "2"}, "worker": {5, "2"}},
		},
		"a FlinkDeployment has job managers and task managers": {
			"FlinkDeployment", `spec: {jobManager: {replicas: 1, resource: {cpu: 0.5, memory: 2048m}}, taskManager: {replicas: 3, resource: {cpu: 2, memory: 4g}}}`,
			4,
			map[string]componentSize{"jobmanager": {1, "500m"}, "taskmanager": {3, "2"}},
		},
		"an MPIJob has a launcher and workers": {
			"MPIJob", `spec: {mpiReplicaSpecs: {Launcher: {replicas: 1, template: ` + twoCPUs + `}, Worker: {replicas: 4, template: ` + twoCPUs + `}}}`,
			5,
			map[string]componentSize{"launcher": {1, "2"}, "worker": {4, "2"}},
		},
		"a PyTorchJob has a master and workers": {
			"PyTorchJob", `spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: ` + twoCPUs + `}, Worker: {replicas: 2, template: ` + twoCPUs + `}}}`,
			3,
			map[string]componentSize{"master": {1, "2"}, "worker": {2, "2"}},
		},
		"a TFJob has parameter servers and workers; replicas are 1 by default": {
			"TFJob", `spec: {tfReplicaSpecs: {PS: {replicas: 2, template: ` + twoCPUs + `}, Worker: {template: ` + twoCPUs + `}}}`,
			3,
			map[string]componentSize{"ps": {2, "2"}, "worker": {1, "2"}},
		},
		"a RayCluster has one head, and numOfHosts pods for each replica of a group": {"RayCluster", `spec: ` + ray, 7, map[string]componentSize{"small": {6, "2"}}},
		"a RayJob has those of its cluster, if no pod submits it":                    {"RayJob", `spec: {submissionMode: HTTPMode, rayClusterSpec: ` + ray + `}`, 7, map[string]componentSize{"small": {6, "2"}}},
		"a RayService has those of its cluster":                                      {"RayService", `spec: {rayClusterConfig: ` + ray + `}`, 7, map[string]componentSize{"small": {6, "2"}}},
		"a SparkApplication has one driver and spec.executor.instances executors": {
			"SparkApplication", `spec: {driver: {cores: 1}, executor: {instances: 4, cores: 2}}`,
			5,
			map[string]componentSize{"driver": {1, "1"}, "executor": {4, "2"}},
		},
	}
}

func TestComponentsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	for name, row := range componentRows() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts, err := operationsOf(t, row.kind).Components(object(t, row.kind, row.object))
			if err != nil {
				t.Fatal(err)
			}
			pods, found := int32(0), map[string]componentSize{}
			for _, part := range parts {
				pods += part.Replicas
				found[strings.ToLower(part.Name)] = componentSize{part.Replicas, cpuOf(part.Needs)}
			}
			if pods != row.pods {
				t.Errorf("got %d pods in all, want %d", pods, row.pods)
			}
			for part, want := range row.named {
				if found[part] != want {
					t.Errorf("part %s: got %v, want %v", part, found[part], want)
				}
			}
		})
	}
}
