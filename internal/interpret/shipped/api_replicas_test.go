// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/testing/expect"
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

func TestReplicasAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	rows := map[string]replicaRow{
		"a BroadcastJob runs spec.parallelism pods at a time":        {"BroadcastJob", `spec: {parallelism: 4, template: ` + twoCPUs + `}`, 4, "2"},
		"a BroadcastJob that says nothing counts as one":             {"BroadcastJob", `spec: {template: ` + twoCPUs + `}`, 1, "2"},
		"a BroadcastJob on a share of the nodes counts as one":       {"BroadcastJob", `spec: {parallelism: 50%, template: ` + twoCPUs + `}`, 1, "2"},
		"a number that is written as text is one":                    {"CloneSet", `spec: {replicas: "2", template: ` + twoCPUs + `}`, 2, "2"},
		"a SidecarSet has no pods":                                   {"SidecarSet", `spec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}`, 0, "0"},
		"a Workflow that limits its pods is run once, too":           {"Workflow", `spec: {parallelism: 3}`, 1, "0"},
		"a FlinkDeployment has one of each by default":               {"FlinkDeployment", `spec: {}`, 2, "0"},
		"a FlinkDeployment whose slots are 0 has a manager for each": {"FlinkDeployment", `spec: {flinkConfiguration: {taskmanager.numberOfTaskSlots: "0"}, job: {parallelism: 3}}`, 4, "0"},
		"each pod of a FlinkDeployment counts as the larger":         {"FlinkDeployment", `spec: {jobManager: {resource: {cpu: 3}}, taskManager: {resource: {cpu: 1}}}`, 2, "3"},
		"a RayService has workers and a head, the largest counts": {
			"RayService", `spec: {rayClusterConfig: {headGroupSpec: {template: {spec: {containers: [{name: a, resources: {requests: {cpu: 1}}}]}}}, workerGroupSpecs: [{replicas: 2, template: ` + twoCPUs + `}, {replicas: 3}]}}`, 6, "2",
		},
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
	eachKindHasARow(t, lua.ReplicaResource, rows)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replicas, needs, err := operationsOf(t, row.kind).Replicas(object(t, row.kind, row.object))
			expect.NoError(t, err)
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

func TestRevisionsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	rows := map[string]revisionRow{
		"a BroadcastJob runs so many pods at a time":       {"BroadcastJob", `spec: {parallelism: 4, completionPolicy: {type: Always}}`, `spec: {parallelism: 7, completionPolicy: {type: Always}}`},
		"a BroadcastJob on a share of the nodes is not":    {"BroadcastJob", `spec: {parallelism: 50%}`, `spec: {parallelism: 50%}`},
		"a Workflow runs so many pods at a time":           {"Workflow", `spec: {parallelism: 4, entrypoint: a}`, `spec: {parallelism: 7, entrypoint: a}`},
		"a Workflow without a limit gets one":              {"Workflow", `spec: {entrypoint: a}`, `spec: {entrypoint: a, parallelism: 7}`},
		"a RayService spreads them over its groups":        {"RayService", `spec: {rayClusterConfig: {workerGroupSpecs: [{replicas: 1}, {replicas: 2}]}}`, `spec: {rayClusterConfig: {workerGroupSpecs: [{replicas: 2}, {replicas: 5}]}}`},
		"the largest remainder of a RayService gets more":  {"RayService", `spec: {rayClusterConfig: {workerGroupSpecs: [{replicas: 5}, {replicas: 4}]}}`, `spec: {rayClusterConfig: {workerGroupSpecs: [{replicas: 4}, {replicas: 3}]}}`},
		"groups of a RayService that have none get equal":  {"RayService", `spec: {rayClusterConfig: {workerGroupSpecs: [{replicas: 0}, {replicas: 0}]}}`, `spec: {rayClusterConfig: {workerGroupSpecs: [{replicas: 4}, {replicas: 3}]}}`},
		"a RayService that has so many stays as it is":     {"RayService", `spec: {rayClusterConfig: {workerGroupSpecs: [{replicas: 4}, {replicas: 2}]}}`, `spec: {rayClusterConfig: {workerGroupSpecs: [{replicas: 4}, {replicas: 2}]}}`},
		"a CloneSet has so many":                           {"CloneSet", `spec: {replicas: 3, minReadySeconds: 5}`, `spec: {replicas: 7, minReadySeconds: 5}`},
		"an advanced StatefulSet has so many":              {"StatefulSet", `spec: {replicas: 3, serviceName: a}`, `spec: {replicas: 7, serviceName: a}`},
		"a UnitedDeployment has so many, its subsets stay": {"UnitedDeployment", `spec: {replicas: 3, topology: {subsets: [{name: a, replicas: 1}]}}`, `spec: {replicas: 7, topology: {subsets: [{name: a, replicas: 1}]}}`},
	}
	eachKindHasARow(t, lua.ReplicaRevision, rows)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			revised, err := operationsOf(t, row.kind).Revise(object(t, row.kind, row.object), 7)
			expect.NoError(t, err)
			if diff := difference(object(t, row.kind, row.revised), revised); len(diff) > 0 {
				t.Errorf("the revised object differs in %v", diff)
			}
		})
	}
}

// TestAWorkflowThatIsNotDividedKeepsItsLimit: what is sent to one cluster is revised to what it counts as.
func TestAWorkflowThatIsNotDividedKeepsItsLimit(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{`spec: {parallelism: 4}`, `spec: {entrypoint: a}`} {
		given := object(t, "Workflow", spec)
		revised, err := operationsOf(t, "Workflow").Revise(given, 1)
		expect.NoError(t, err)
		if diff := difference(given, revised); len(diff) > 0 {
			t.Errorf("{%s} differs in %v", spec, diff)
		}
	}
}

// componentRow is what parts an object has: how many pods in all, and how many there are, with what CPUs, of those parts
// that are named.
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

func TestComponentsAreThoseOfTheAPI(t *testing.T) {
	t.Parallel()
	const ray = `{headGroupSpec: {template: ` + twoCPUs + `}, workerGroupSpecs: [{groupName: small, replicas: 2, numOfHosts: 3, template: ` + twoCPUs + `}]}`
	rows := map[string]componentRow{
		"a Job of Volcano has a part for each task": {
			"Job", `spec: {tasks: [{name: ps, replicas: 2, minAvailable: 2, template: ` + twoCPUs + `}, {name: worker, replicas: 5, minAvailable: 5, template: ` + twoCPUs + `}]}`,
			7,
			map[string]componentSize{"ps": {2, "2"}, "worker": {5, "2"}},
		},
		"a Job of Volcano needs minAvailable of each task, or one": {
			"Job", `spec: {tasks: [{name: ps, replicas: 9, minAvailable: 2, template: ` + twoCPUs + `}, {replicas: 5}, {name: z, minAvailable: 0}]}`,
			3,
			map[string]componentSize{"ps": {2, "2"}, "task-2": {1, "0"}, "z": {0, "0"}},
		},
		"an MPIJob has parts with a template, the launcher is one, and limits are requests": {
			"MPIJob", `spec: {mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: a, resources: {limits: {cpu: 3}}}]}}}, Worker: {replicas: 4}}}`,
			1,
			map[string]componentSize{"Launcher": {1, "3"}},
		},
		"an MPIJob has no workers by default":                                 {"MPIJob", `spec: {mpiReplicaSpecs: {Worker: {template: ` + twoCPUs + `}}}`, 0, map[string]componentSize{"Worker": {0, "2"}}},
		"a TFJob has replicas that are written as text":                       {"TFJob", `spec: {tfReplicaSpecs: {Worker: {replicas: "3", template: ` + twoCPUs + `}}}`, 3, map[string]componentSize{"worker": {3, "2"}}},
		"a RayJob has no part for the pod that submits it":                    {"RayJob", `spec: {rayClusterSpec: ` + ray + `}`, 7, map[string]componentSize{"ray-head": {1, "2"}, "small": {6, "2"}}},
		"a group of a RayCluster without a name":                              {"RayCluster", `spec: {headGroupSpec: {template: ` + twoCPUs + `}, workerGroupSpecs: [{groupName: a}, {replicas: 2}]}`, 3, map[string]componentSize{"ray-head": {1, "2"}, "worker-2": {2, "0"}}},
		"the driver and the executors of a SparkApplication have a core each": {"SparkApplication", `spec: {executor: {instances: 2}}`, 3, map[string]componentSize{"driver": {1, "1"}, "executor": {2, "1"}}},
		"a FlinkDeployment has job managers and task managers": {
			"FlinkDeployment", `spec: {jobManager: {replicas: 1, resource: {cpu: 0.5, memory: 2048m}}, taskManager: {replicas: 3, resource: {cpu: 2, memory: 4g}}}`,
			4,
			map[string]componentSize{"jobmanager": {1, "500m"}, "taskmanager": {3, "2"}},
		},
		"an MPIJob has a launcher and workers": {
			"MPIJob", `spec: {mpiReplicaSpecs: {Launcher: {replicas: 1, template: ` + twoCPUs + `}, Worker: {replicas: 4, template: ` + twoCPUs + `}}}`,
			5,
			map[string]componentSize{"Launcher": {1, "2"}, "Worker": {4, "2"}},
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
	eachKindHasARow(t, lua.ComponentResource, rows)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts, err := operationsOf(t, row.kind).Components(object(t, row.kind, row.object))
			expect.NoError(t, err)
			pods, found := int32(0), map[string]componentSize{}
			for _, part := range parts {
				pods += part.Replicas
				found[part.Name] = componentSize{part.Replicas, cpuOf(part.Needs)}
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

// TestMemoryOfComponents has what the workloads themselves make of the memory that is written, or not.
func TestMemoryOfComponents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ kind, object, part, memory string }{
		"a process of the JVM has 1 GiB, and 384 MiB beside": {"SparkApplication", `spec: {type: Scala}`, "driver", "1408Mi"},
		"another has two fifths beside":                      {"SparkApplication", `spec: {type: Python}`, "executor", "1434Mi"},
		"memory of Spark in its units":                       {"SparkApplication", `spec: {driver: {memory: 512m, memoryOverhead: 1g}}`, "driver", "1536Mi"},
		"m is mebibytes to Flink":                            {"FlinkDeployment", `spec: {jobManager: {resource: {memory: 100m}}}`, "jobmanager", "100Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parts, err := operationsOf(t, c.kind).Components(object(t, c.kind, c.object))
			expect.NoError(t, err)
			for _, part := range parts {
				if part.Name != c.part {
					continue
				}
				want := resource.MustParse(c.memory)
				if got := part.Needs.Requests[corev1.ResourceMemory]; got.Cmp(want) != 0 {
					t.Errorf("%s needs %s, want %s", part.Name, got.String(), c.memory)
				}
				return
			}
			t.Errorf("there is no part %s", c.part)
		})
	}
}
