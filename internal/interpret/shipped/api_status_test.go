// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	isReady  = `conditions: [{type: Ready, status: "True", reason: Succeeded}]`
	notReady = `conditions: [{type: Ready, status: "False", reason: Failed, message: "no"}]`
)

// reflectionRow is what the hub has to hear of a status; what else it hears is left open.
type reflectionRow struct{ kind, status, reported string }

func (r reflectionRow) of() string { return r.kind }

func TestReflectionIsThatOfTheAPI(t *testing.T) {
	t.Parallel()
	rows := map[string]reflectionRow{
		"a Workflow reports its phase, not its nodes": {
			"Workflow", `phase: Running, progress: 1/2, startedAt: "2026-01-01T00:00:00Z", nodes: {a: {phase: Running}}, storedTemplates: {a: {}}`,
			`phase: Running, progress: 1/2, startedAt: "2026-01-01T00:00:00Z", nodes: null, storedTemplates: null`,
		},
		"a Job of Volcano reports its state, its pods and what it controls": {
			"Job", `state: {phase: Running}, minAvailable: 2, running: 2, controlledResources: {plugin-svc: svc}, taskStatusCount: {ps: {phase: {Running: 2}}}`,
			`state: {phase: Running}, minAvailable: 2, running: 2, controlledResources: {plugin-svc: svc}, taskStatusCount: {ps: {phase: {Running: 2}}}`,
		},
		"a FlinkDeployment reports its job and its state, and which spec that is about": {
			"FlinkDeployment", `observedGeneration: 3, jobStatus: {jobId: "1", state: RUNNING}, lifecycleState: STABLE, jobManagerDeploymentStatus: READY, reconciliationStatus: {state: DEPLOYED}`,
			`observedGeneration: 3, jobStatus: {jobId: "1", state: RUNNING}, lifecycleState: STABLE, jobManagerDeploymentStatus: READY, reconciliationStatus: {state: DEPLOYED}`,
		},
		"a Kustomization reports its revision, not what it applied": {
			"Kustomization", `observedGeneration: 3, lastAppliedRevision: "1", inventory: {entries: [{id: a, v: v1}]}, ` + isReady,
			`observedGeneration: 3, lastAppliedRevision: "1", inventory: null, ` + isReady,
		},
		"a ClusterPolicy reports its conditions":     {"ClusterPolicy", `rulecount: {validate: 2}, autogen: {rules: [{name: a}]}, ` + isReady, `rulecount: {validate: 2}, autogen: {rules: [{name: a}]}, ` + isReady},
		"a Policy reports its conditions":            {"Policy", `rulecount: {mutate: 1}, autogen: {rules: [{name: a}]}, ` + notReady, `rulecount: {mutate: 1}, autogen: {rules: [{name: a}]}, ` + notReady},
		"a RayJob reports its job":                   {"RayJob", `jobId: "1", jobStatus: RUNNING, jobDeploymentStatus: Running`, `jobId: "1", jobStatus: RUNNING, jobDeploymentStatus: Running`},
		"a RayService reports its endpoints":         {"RayService", `serviceStatus: Running, numServeEndpoints: 2`, `serviceStatus: Running, numServeEndpoints: 2`},
		"a SparkApplication reports its application": {"SparkApplication", `applicationState: {state: RUNNING}, executionAttempts: 1, executorState: {a-1: RUNNING}`, `applicationState: {state: RUNNING}, executionAttempts: 1, executorState: {a-1: RUNNING}`},
	}
	eachKindHasARow(t, lua.StatusReflection, rows)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reported, err := shipped.BuiltinChain().ReflectStatus(&unstructured.Unstructured{Object: object(t, row.kind, statusOf(row.status))})
			expect.NoError(t, err)
			want := fields.Map(object(t, row.kind, statusOf(row.reported)), "status")
			if diff := lacks(want, reported); diff != "" {
				t.Errorf("what is reported differs (-want +got):\n%s", diff)
			}
		})
	}
}

func statusOf(text string) string { return "status: {" + text + "}" }

// aggregationRow is what a template's status has to have when two clusters report theirs.
type aggregationRow struct{ kind, first, second, status string }

func (r aggregationRow) of() string { return r.kind }

// TestNoClusterHasTheObject: nobody is left who could observe the template.
func TestNoClusterHasTheObject(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"CloneSet", "DaemonSet", "StatefulSet", "UnitedDeployment", "SidecarSet", "HelmRelease", "Kustomization", "GitRepository"} {
		status, _, err := shipped.BuiltinChain().AggregateStatus(&unstructured.Unstructured{Object: object(t, kind, "spec: {}")}, nil)
		expect.NoError(t, err)
		if got := fields.IntOr(0, status, "observedGeneration"); got != 3 {
			t.Errorf("a %s has observedGeneration %d, want 3", kind, got)
		}
	}
}

// TestWhatHasEndedStaysSo: a cluster that is silent does not run a job once more.
func TestWhatHasEndedStaysSo(t *testing.T) {
	t.Parallel()
	for kind, condition := range map[string]string{"TFJob": "Succeeded", "PyTorchJob": "Succeeded", "BroadcastJob": "Completed"} {
		reported := fields.Map(object(t, kind, statusOf(`completionTime: "2026-01-01T00:00:00Z", conditions: [{type: `+strings.Replace(condition, "Completed", "Complete", 1)+`, status: "True"}]`)), "status")
		status, _, err := shipped.BuiltinChain().AggregateStatus(&unstructured.Unstructured{Object: object(t, kind, "spec: {}")},
			[]interpret.ClusterItem{{Cluster: "a", Status: reported, Applied: true, Health: interpret.Unknown}})
		expect.NoError(t, err)
		if !fields.ConditionOf(m{"status": status}, condition).True() {
			t.Errorf("%s of a %s is not True: %v", condition, kind, status)
		}
	}
}

func TestAggregationIsThatOfTheAPI(t *testing.T) {
	t.Parallel()
	const early, late = `"2026-01-01T00:00:00Z"`, `"2026-01-01T00:00:09Z"`
	rows := map[string]aggregationRow{
		"an AdvancedCronJob has the active jobs of both, and the last that was started": {
			"AdvancedCronJob", `type: Job, active: [{name: a}], lastScheduleTime: ` + late, `type: Job, active: [{name: b}], lastScheduleTime: ` + early,
			`type: Job, active: [{name: a}, {name: b}], lastScheduleTime: ` + late,
		},
		"a BroadcastJob has the pods of both, and has not ended before both have": {
			"BroadcastJob", `phase: completed, desired: 2, succeeded: 2, startTime: ` + late + `, completionTime: ` + late, `phase: running, desired: 3, active: 1, succeeded: 2, startTime: ` + early,
			`phase: running, desired: 5, active: 1, succeeded: 4, startTime: ` + early + `, completionTime: null`,
		},
		"a CloneSet has the replicas of both": {
			"CloneSet", `observedGeneration: 1, replicas: 3, readyReplicas: 3, updatedReplicas: 2, availableReplicas: 3`, `observedGeneration: 1, replicas: 2, readyReplicas: 1, updatedReplicas: 2, availableReplicas: 1`,
			`observedGeneration: 3, replicas: 5, readyReplicas: 4, updatedReplicas: 4, availableReplicas: 4`,
		},
		"an advanced DaemonSet has the nodes of both": {
			"DaemonSet", `observedGeneration: 1, desiredNumberScheduled: 3, numberReady: 3, updatedNumberScheduled: 3`, `observedGeneration: 1, desiredNumberScheduled: 2, numberReady: 1, updatedNumberScheduled: 2`,
			`observedGeneration: 3, desiredNumberScheduled: 5, numberReady: 4, updatedNumberScheduled: 5`,
		},
		"a SidecarSet matches the pods of both": {
			"SidecarSet", `observedGeneration: 1, matchedPods: 4, updatedPods: 4, readyPods: 3`, `observedGeneration: 1, matchedPods: 2, updatedPods: 1, readyPods: 2`,
			`observedGeneration: 3, matchedPods: 6, updatedPods: 5, readyPods: 5`,
		},
		"an advanced StatefulSet has the replicas of both": {
			"StatefulSet", `observedGeneration: 1, replicas: 3, readyReplicas: 3, availableReplicas: 2`, `observedGeneration: 1, replicas: 2, readyReplicas: 1, availableReplicas: 1`,
			`observedGeneration: 3, replicas: 5, readyReplicas: 4, availableReplicas: 3`,
		},
		"a UnitedDeployment has the replicas of both by subset": {
			"UnitedDeployment", `observedGeneration: 1, replicas: 3, subsetReplicas: {a: 1, b: 2}`, `observedGeneration: 1, replicas: 4, subsetReplicas: {b: 3, c: 1}`,
			`observedGeneration: 3, replicas: 7, subsetReplicas: {a: 1, b: 5, c: 1}`,
		},
		"a Workflow that failed in one has failed": {
			"Workflow", `phase: Succeeded, startedAt: ` + late + `, finishedAt: ` + early, `phase: Failed, startedAt: ` + early + `, finishedAt: ` + late,
			`phase: Failed, startedAt: ` + early + `, finishedAt: ` + late,
		},
		"a Workflow that runs in one has not finished": {
			"Workflow", `phase: Succeeded, startedAt: ` + early + `, finishedAt: ` + late, `phase: Running, startedAt: ` + early, `phase: Running, finishedAt: null`,
		},
		"a Job of Volcano has the pods of both by task, and runs until both have completed": {
			"Job", `state: {phase: Completed}, succeeded: 2, taskStatusCount: {ps: {phase: {Succeeded: 2}}}`, `state: {phase: Running}, running: 3, succeeded: 1, taskStatusCount: {ps: {phase: {Running: 3, Succeeded: 1}}}`,
			`state: {phase: Running}, running: 3, succeeded: 3, taskStatusCount: {ps: {phase: {Running: 3, Succeeded: 3}}}`,
		},
		"a FlinkDeployment is deployed when it is in both": {
			"FlinkDeployment", `jobManagerDeploymentStatus: READY, lifecycleState: STABLE, jobStatus: {state: RUNNING}`, `jobManagerDeploymentStatus: DEPLOYING, lifecycleState: DEPLOYED, jobStatus: {state: RUNNING}`,
			`jobManagerDeploymentStatus: DEPLOYING, lifecycleState: DEPLOYED, jobStatus: {state: RUNNING}`,
		},
		"a Notebook has the replicas of both": {
			"Notebook", `readyReplicas: 1, containerState: {running: {startedAt: ` + early + `}}`, `readyReplicas: 1`, `readyReplicas: 2, containerState: {running: {startedAt: ` + early + `}}`,
		},
		"a ClusterPolicy is enforced when it is in both": {"ClusterPolicy", `ready: true, ` + isReady, `ready: false, ` + notReady, `ready: false`},
		"a Policy that both enforce is":                  {"Policy", `ready: true`, `ready: true`, `ready: true`},
		"a RayCluster has the workers of both": {
			"RayCluster", `observedGeneration: 1, state: ready, desiredWorkerReplicas: 2, readyWorkerReplicas: 2, desiredCPU: "3"`, `observedGeneration: 1, state: ready, desiredWorkerReplicas: 4, readyWorkerReplicas: 3, desiredCPU: 1500m`,
			`observedGeneration: 3, state: ready, desiredWorkerReplicas: 6, readyWorkerReplicas: 5, desiredCPU: 4500m`,
		},
		"a RayCluster that failed in one has failed": {"RayCluster", `state: ready`, `state: failed`, `state: failed`},
		"a RayJob that failed in one has failed": {
			"RayJob", `jobStatus: SUCCEEDED, jobDeploymentStatus: Complete, succeeded: 1, startTime: ` + late + `, endTime: ` + early, `jobStatus: FAILED, jobDeploymentStatus: Failed, failed: 1, startTime: ` + early + `, endTime: ` + late,
			`jobStatus: FAILED, jobDeploymentStatus: Failed, succeeded: 1, failed: 1, startTime: ` + early + `, endTime: ` + late,
		},
		"a RayService has the endpoints of both": {"RayService", `serviceStatus: Running, numServeEndpoints: 2`, `serviceStatus: Running, numServeEndpoints: 3`, `serviceStatus: Running, numServeEndpoints: 5`},
		"a SparkApplication runs until both have completed": {
			"SparkApplication", `applicationState: {state: COMPLETED}, terminationTime: ` + early, `applicationState: {state: RUNNING}`, `applicationState: {state: RUNNING}, terminationTime: null`,
		},
		"a SparkApplication that failed in one has failed": {
			"SparkApplication", `applicationState: {state: COMPLETED}, terminationTime: ` + early, `applicationState: {state: FAILED}, terminationTime: ` + late, `applicationState: {state: FAILED}, terminationTime: ` + late,
		},
	}
	// What is summed up, merged, or that of the last cluster:
	condition := func(name, text, at string) string {
		return `{type: ` + name + `, status: "True", reason: R, message: ` + text + `, lastTransitionTime: ` + at + `}`
	}
	said := func(name, reason, text, at string) string {
		return `{type: ` + name + `, status: "True", reason: ` + reason + `, message: "` + text + `", lastTransitionTime: ` + at + `}`
	}
	maps.Copy(rows, map[string]aggregationRow{
		"a HelmRelease has the failures of both, and the revisions of the last": {
			"HelmRelease", `failures: 2, upgradeFailures: 1, lastAttemptedRevision: 1.0.0, lastAppliedRevision: 1.0.0, history: [{version: 1}]`, `failures: 3, lastAttemptedRevision: 2.0.0, history: [{version: 2}]`,
			`failures: 5, upgradeFailures: 1, lastAttemptedRevision: 2.0.0, lastAppliedRevision: 1.0.0, history: [{version: 2}]`,
		},
		"a Kustomization has the revisions of the last": {"Kustomization", `lastAppliedRevision: a`, `lastAppliedRevision: b, ` + notReady, `lastAppliedRevision: b`},
		"a Job of Volcano has what both control, the longest duration, and all conditions": {
			"Job", `state: {phase: Running}, version: 3, runningDuration: 90s, controlledResources: {a: x}, conditions: [{status: Pending}, {status: Running}]`,
			`state: {phase: Pending}, version: 2, runningDuration: 1m40s, controlledResources: {b: y}, conditions: [{status: Pending}]`,
			`state: {phase: Pending}, version: 3, runningDuration: 1m40s, controlledResources: {a: x, b: y}, conditions: [{status: Pending}, {status: Running}, {status: Pending}]`,
		},
		"a FlinkDeployment has the job of the last": {
			"FlinkDeployment", `lifecycleState: STABLE, jobStatus: {state: RUNNING, jobId: a}, clusterInfo: {flink-version: "1"}, reconciliationStatus: {state: DEPLOYED}`, `lifecycleState: STABLE, jobStatus: {state: FINISHED, jobId: b}`,
			`lifecycleState: STABLE, jobStatus: {state: FINISHED, jobId: b}, clusterInfo: {flink-version: "1"}, reconciliationStatus: {state: DEPLOYED}`,
		},
		"a RayJob has failed for the reason of the one that did": {
			"RayJob", `jobId: a, jobDeploymentStatus: Complete, reason: Fine`, `jobId: b, jobDeploymentStatus: Failed, reason: AppFailed, message: broken`, `jobId: null, jobDeploymentStatus: Failed, reason: AppFailed, message: broken`,
		},
		"a RayCluster of one cluster has its quantities as they are": {"RayCluster", `state: ready, desiredCPU: "2.5"`, ``, `desiredCPU: "2.5"`},
		"a SparkApplication has the attempts and the executors of both": {
			"SparkApplication", `applicationState: {state: RUNNING}, executionAttempts: 1, submissionAttempts: 2, executorState: {a-1: RUNNING}, terminationTime: ` + late, `applicationState: {state: RUNNING}, executionAttempts: 2, submissionAttempts: 2, executorState: {b-1: FAILED}, terminationTime: ` + early,
			`applicationState: {state: RUNNING}, executionAttempts: 3, submissionAttempts: 4, executorState: {a-1: RUNNING, b-1: FAILED}, terminationTime: ` + late,
		},
		"a BroadcastJob that failed in one says where": {
			"BroadcastJob", `phase: completed, completionTime: ` + late + `, conditions: [` + condition("Complete", "done", late) + `]`, `phase: failed, conditions: [` + condition("Failed", "broken", early) + `]`,
			`phase: failed, conditions: [{type: Complete, status: Unknown, reason: NotReported, message: "member1=done; member2: has not reported this condition", lastTransitionTime: ` + late + `}, ` + said("Failed", "JobFailed", "member2=broken", early) + `]`,
		},
		"a BroadcastJob that both have completed": {
			"BroadcastJob", `phase: completed, completionTime: ` + late + `, conditions: [` + condition("Complete", "done", late) + `]`, `phase: completed, completionTime: ` + early + `, conditions: [` + condition("Complete", "done", early) + `]`,
			`phase: completed, completionTime: ` + late + `, conditions: [` + said("Complete", "R", "member1=done, member2=done", late) + `, ` + said("Completed", "Completed", "member1=done, member2=done", late) + `]`,
		},
	})
	for _, kind := range []string{"CloneSet", "StatefulSet", "UnitedDeployment"} {
		rows["a "+kind+" has the revision of the last"] = aggregationRow{kind, `replicas: 1, currentRevision: a, labelSelector: x=y`, `replicas: 1, currentRevision: b`, `replicas: 2, currentRevision: b, labelSelector: x=y`}
	}
	for _, kind := range []string{"ClusterPolicy", "Policy"} {
		rows["the rules of a "+kind] = aggregationRow{kind, `ready: true, rulecount: {validate: 1, mutate: 2}, autogen: {rules: [a]}`, `ready: true, rulecount: {validate: 3}, autogen: {rules: [b]}`, `rulecount: {validate: 4, mutate: 2}, autogen: {rules: [b]}`}
	}
	for _, kind := range []string{"Bucket", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository"} {
		rows["the artifact of a "+kind] = aggregationRow{kind, `observedGeneration: 1, artifact: {revision: a}`, `observedGeneration: 1, artifact: {revision: b}`, `artifact: {revision: b}`}
	}
	for _, kind := range []string{"TFJob", "PyTorchJob"} {
		succeeded, failed, running := condition("Succeeded", "done", late), condition("Failed", "broken", early), condition("Running", "runs", early)
		rows["a "+kind+" has succeeded in both"] = aggregationRow{kind, `conditions: [` + succeeded + `]`, `conditions: [` + succeeded + `]`, `conditions: [` + said("Succeeded", "Completed", "member1=done, member2=done", late) + `]`}
		rows["a "+kind+" has failed in one"] = aggregationRow{kind, `conditions: [` + succeeded + `]`, `conditions: [` + failed + `]`, `conditions: [` + said("Failed", kind+"Failed", "member2=broken", early) + `]`}
		rows["a "+kind+" has succeeded in one"] = aggregationRow{kind, `conditions: [` + running + `, ` + succeeded + `]`, `conditions: [` + running + `]`, `conditions: [` + said("Running", "R", "member1=runs, member2=runs", early) + `]`}
	}
	for _, kind := range []string{"MPIJob", "PyTorchJob", "TFJob"} {
		rows[fmt.Sprintf("a %s has the pods of both by role, and has not ended before both have", kind)] = aggregationRow{
			kind, `replicaStatuses: {Worker: {active: 1, succeeded: 1}}, startTime: ` + late + `, completionTime: ` + late, `replicaStatuses: {Worker: {active: 2, failed: 1}}, startTime: ` + early,
			`replicaStatuses: {Worker: {active: 3, succeeded: 1, failed: 1}}, startTime: ` + early + `, completionTime: null`,
		}
	}
	for _, kind := range []string{"HelmRelease", "Kustomization", "Bucket", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository"} {
		rows[fmt.Sprintf("a %s has reconciled what both have", kind)] = aggregationRow{kind, `observedGeneration: 1, ` + isReady, `observedGeneration: 1, ` + isReady, `observedGeneration: 3`}
	}
	eachKindHasARow(t, lua.StatusAggregation, rows)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status := aggregated(t, row)
			want := fields.Map(object(t, row.kind, statusOf(row.status)), "status")
			if diff := lacks(want, status); diff != "" {
				t.Errorf("the status differs (-want +got):\n%s", diff)
			}
		})
	}
}

func aggregated(t *testing.T, row aggregationRow) m {
	t.Helper()
	var items []interpret.ClusterItem
	for cluster, status := range map[string]string{"member1": row.first, "member2": row.second} {
		if status == "" {
			continue
		}
		reported := fields.Map(object(t, row.kind, statusOf(status)), "status")
		items = append(items, interpret.ClusterItem{Cluster: cluster, Status: reported, Applied: true, Health: interpret.Healthy})
	}
	status, _, err := shipped.BuiltinChain().AggregateStatus(&unstructured.Unstructured{Object: object(t, row.kind, "spec: {}")}, items)
	expect.NoError(t, err)
	return status
}

// TestReadyIsThatOfAllClusters has the kinds that report a condition Ready.
func TestReadyIsThatOfAllClusters(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"HelmRelease", "Kustomization", "Bucket", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository", "ClusterPolicy", "Policy", "RayService",
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			both := fields.ConditionOf(m{"status": aggregated(t, aggregationRow{kind: kind, first: isReady, second: isReady})}, "Ready")
			if !both.True() || both.Reason != "Succeeded" {
				t.Errorf("ready in both clusters: Ready is %v", both)
			}
			one := fields.ConditionOf(m{"status": aggregated(t, aggregationRow{kind: kind, first: isReady, second: notReady})}, "Ready")
			if !one.False() || one.Reason != "Failed" {
				t.Errorf("ready in one cluster: Ready is %v", one)
			}
		})
	}
}
