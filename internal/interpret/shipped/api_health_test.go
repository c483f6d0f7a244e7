// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// healthRow is a status in which an object does what it is for, and those in which it does not.
type healthRow struct {
	kind, spec, healthy string
	unhealthy           []string
}

func (r healthRow) of() string { return r.kind }

func TestHealthIsThatOfTheAPI(t *testing.T) {
	t.Parallel()
	rows := map[string]healthRow{
		"a BroadcastJob has not failed": {"BroadcastJob", `spec: {}`, `phase: running, desired: 3, active: 2, succeeded: 1, failed: 0`, []string{`phase: failed, desired: 3, succeeded: 2, failed: 1`}},
		"a CloneSet has updated what it is to update, and its pods are available": {
			"CloneSet", `spec: {replicas: 3, updateStrategy: {partition: 1}}`, `observedGeneration: 3, expectedUpdatedReplicas: 2, updatedReplicas: 2, availableReplicas: 3`,
			[]string{
				`observedGeneration: 2, expectedUpdatedReplicas: 2, updatedReplicas: 2, availableReplicas: 3`,
				`observedGeneration: 3, expectedUpdatedReplicas: 2, updatedReplicas: 1, availableReplicas: 3`,
				`observedGeneration: 3, expectedUpdatedReplicas: 2, updatedReplicas: 2, availableReplicas: 2`,
			},
		},
		"an advanced DaemonSet has an available pod on each node, and an updated one but for the partition": {
			"DaemonSet", `spec: {updateStrategy: {rollingUpdate: {partition: 1}}}`, `observedGeneration: 3, desiredNumberScheduled: 3, updatedNumberScheduled: 2, numberAvailable: 3`,
			[]string{
				`observedGeneration: 2, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 3`,
				`observedGeneration: 3, desiredNumberScheduled: 3, updatedNumberScheduled: 1, numberAvailable: 3`,
				`observedGeneration: 3, desiredNumberScheduled: 3, updatedNumberScheduled: 3, numberAvailable: 2`,
			},
		},
		"a SidecarSet has updated all pods that it matches but for the partition, and these are ready": {
			"SidecarSet", `spec: {updateStrategy: {partition: 1}}`, `observedGeneration: 3, matchedPods: 3, updatedPods: 2, readyPods: 3`,
			[]string{
				`observedGeneration: 2, matchedPods: 3, updatedPods: 3, readyPods: 3`,
				`observedGeneration: 3, matchedPods: 3, updatedPods: 1, readyPods: 3`,
				`observedGeneration: 3, matchedPods: 3, updatedPods: 3, readyPods: 2`,
			},
		},
		"an advanced StatefulSet has updated all but the ordinals below the partition, and all are available": {
			"StatefulSet", `spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}`, `observedGeneration: 3, updatedReplicas: 2, availableReplicas: 3`,
			[]string{
				`observedGeneration: 2, updatedReplicas: 3, availableReplicas: 3`,
				`observedGeneration: 3, updatedReplicas: 1, availableReplicas: 3`,
				`observedGeneration: 3, updatedReplicas: 3, availableReplicas: 2`,
			},
		},
		"a UnitedDeployment has updated all replicas, and these are ready": {
			"UnitedDeployment", `spec: {replicas: 3}`, `observedGeneration: 3, updatedReplicas: 3, readyReplicas: 3`,
			[]string{
				`observedGeneration: 2, updatedReplicas: 3, readyReplicas: 3`, `observedGeneration: 3, updatedReplicas: 2, readyReplicas: 3`, `observedGeneration: 3, updatedReplicas: 3, readyReplicas: 2`,
			},
		},
		"a Workflow runs":                              {"Workflow", `spec: {}`, `phase: Running`, []string{`phase: Failed`, `phase: Error`}},
		"a Workflow has succeeded":                     {"Workflow", `spec: {}`, `phase: Succeeded`, []string{`phase: Failed`}},
		"a Job of Volcano runs":                        {"Job", `spec: {}`, `state: {phase: Running}`, []string{`state: {phase: Failed}`, `state: {phase: Aborted}`, `state: {phase: Terminated}`}},
		"a Job of Volcano has completed":               {"Job", `spec: {}`, `state: {phase: Completed}`, []string{`state: {phase: Failed}`}},
		"a FlinkDeployment is ready, and its job runs": {"FlinkDeployment", `spec: {job: {state: running}}`, `observedGeneration: 3, jobManagerDeploymentStatus: READY, lifecycleState: STABLE, jobStatus: {state: RUNNING}`, []string{`observedGeneration: 3, jobManagerDeploymentStatus: ERROR, lifecycleState: FAILED, jobStatus: {state: RUNNING}`, `observedGeneration: 3, jobManagerDeploymentStatus: READY, lifecycleState: FAILED, jobStatus: {state: FAILED}`}},
		"a Notebook has its pod":                       {"Notebook", `spec: {}`, `readyReplicas: 1, containerState: {running: {}}`, []string{`readyReplicas: 0, containerState: {waiting: {reason: ImagePullBackOff}}`}},
		"a RayCluster is ready":                        {"RayCluster", `spec: {}`, `observedGeneration: 3, state: ready`, []string{`observedGeneration: 3, state: failed`, `observedGeneration: 2, state: ready`}},
		"a RayJob runs":                                {"RayJob", `spec: {}`, `jobStatus: RUNNING, jobDeploymentStatus: Running`, []string{`jobStatus: FAILED, jobDeploymentStatus: Complete`, `jobStatus: STOPPED, jobDeploymentStatus: Complete`, `jobStatus: RUNNING, jobDeploymentStatus: Failed`}},
		"a RayJob has succeeded":                       {"RayJob", `spec: {}`, `jobStatus: SUCCEEDED, jobDeploymentStatus: Complete`, []string{`jobStatus: FAILED, jobDeploymentStatus: Failed`}},
		"a RayService serves":                          {"RayService", `spec: {}`, `observedGeneration: 3, serviceStatus: Running, ` + isReady, []string{`observedGeneration: 3, ` + notReady, `observedGeneration: 2, serviceStatus: Running, ` + isReady}},
		"a SparkApplication runs":                      {"SparkApplication", `spec: {}`, `applicationState: {state: RUNNING}`, []string{`applicationState: {state: FAILED}`, `applicationState: {state: SUBMISSION_FAILED}`, `applicationState: {state: FAILING}`}},
		"a SparkApplication has completed":             {"SparkApplication", `spec: {}`, `applicationState: {state: COMPLETED}`, []string{`applicationState: {state: FAILED}`}},
		"a ClusterPolicy is ready to be enforced":      {"ClusterPolicy", `spec: {}`, isReady, []string{notReady}},
		"a Policy is ready to be enforced":             {"Policy", `spec: {}`, isReady, []string{notReady}},
		"a HelmRepository of type oci has no status":   {"HelmRepository", `spec: {type: oci}`, ``, []string{notReady}},
	}
	for _, kind := range []string{"MPIJob", "PyTorchJob", "TFJob"} {
		const created = `{type: Created, status: "True"}`
		rows[fmt.Sprintf("a %s runs or has succeeded", kind)] = healthRow{
			kind, `spec: {}`, `conditions: [` + created + `, {type: Running, status: "False"}, {type: Succeeded, status: "True"}]`,
			[]string{`conditions: [` + created + `, {type: Running, status: "False"}, {type: Failed, status: "True"}]`},
		}
	}
	for _, kind := range []string{"HelmRelease", "Kustomization", "Bucket", "GitRepository", "HelmChart", "HelmRepository", "OCIRepository"} {
		rows[fmt.Sprintf("a %s is reconciled in its present generation", kind)] = healthRow{
			kind, `spec: {}`, `observedGeneration: 3, ` + isReady, []string{`observedGeneration: 3, ` + notReady, `observedGeneration: 2, ` + isReady},
		}
	}
	// Objects that begin, or of which little is said:
	const succeeded, other = `{type: Ready, status: "True", reason: Succeeded}`, `{type: Ready, status: "True", reason: Other}`
	maps.Copy(rows, map[string]healthRow{
		"pods of a BroadcastJob run":                {kind: "BroadcastJob", spec: `spec: {}`, healthy: `desired: 3, active: 1, failed: 2`, unhealthy: []string{`desired: 3, active: 0, succeeded: 0`}},
		"pods of a BroadcastJob have succeeded":     {kind: "BroadcastJob", spec: `spec: {}`, healthy: `desired: 3, succeeded: 1`, unhealthy: []string{`desired: 3, succeeded: 1, conditions: [{type: Failed, status: "True"}]`}},
		"a BroadcastJob wants no node":              {kind: "BroadcastJob", spec: `spec: {}`, healthy: `desired: 0`},
		"a SidecarSet matches no pod":               {kind: "SidecarSet", spec: `spec: {}`, healthy: `observedGeneration: 3, matchedPods: 0`},
		"an object without a generation is judged":  {kind: "RayCluster", spec: `metadata: {generation: null}`, healthy: `state: ready`, unhealthy: []string{`state: failed`}},
		"one with a generation has to be observed":  {kind: "RayCluster", spec: `spec: {}`, healthy: `observedGeneration: 3, state: ready`, unhealthy: []string{`state: ready`}},
		"a FlinkDeployment is to start its job":     {kind: "FlinkDeployment", spec: `spec: {job: {state: running}}`, healthy: `observedGeneration: 3, jobManagerDeploymentStatus: READY, lifecycleState: STABLE`, unhealthy: []string{`observedGeneration: 3, jobManagerDeploymentStatus: READY, lifecycleState: DEPLOYED`, `observedGeneration: 3, jobManagerDeploymentStatus: MISSING, lifecycleState: STABLE`}},
		"a container of a Notebook is being made":   {kind: "Notebook", spec: `spec: {}`, healthy: `readyReplicas: 0, containerState: {waiting: {reason: ContainerCreating}}`, unhealthy: []string{`readyReplicas: 0, containerState: {waiting: {reason: CrashLoopBackOff}}`}},
		"the cluster of a RayJob is being made":     {kind: "RayJob", spec: `spec: {}`, healthy: `jobDeploymentStatus: Initializing`, unhealthy: []string{`jobDeploymentStatus: Failed`}},
		"a pod of a Notebook is being initialized":  {kind: "Notebook", spec: `spec: {}`, healthy: `readyReplicas: 0, containerState: {waiting: {reason: PodInitializing}}`, unhealthy: []string{`readyReplicas: 0, containerState: {terminated: {exitCode: 1}}`}},
		"a RayJob waits in a cluster that runs":     {kind: "RayJob", spec: `spec: {}`, healthy: `jobDeploymentStatus: Running, jobStatus: PENDING`, unhealthy: []string{`jobDeploymentStatus: Retrying, jobStatus: PENDING`}},
		"Ready of a RayService comes at any place":  {kind: "RayService", spec: `spec: {}`, healthy: `observedGeneration: 3, conditions: [{type: UpgradeInProgress, status: "False"}, ` + succeeded + `]`},
		"the state of a SparkApplication is empty":  {kind: "SparkApplication", spec: `spec: {}`, healthy: `applicationState: {state: ""}`, unhealthy: []string{`applicationState: {state: UNKNOWN}`, `applicationState: {}`}},
		"a ClusterPolicy is Ready for what reason?": {kind: "ClusterPolicy", spec: `spec: {}`, healthy: `conditions: [` + succeeded + `]`, unhealthy: []string{`conditions: [` + other + `]`}},
		"a Policy is Ready for what reason?":        {kind: "Policy", spec: `spec: {}`, healthy: `conditions: [` + succeeded + `]`, unhealthy: []string{`conditions: [` + other + `]`}},
	})
	for _, state := range []string{"PENDING_SUBMISSION", "SUBMITTED", "PENDING_RERUN", "INVALIDATING", "SUSPENDING", "SUSPENDED", "RESUMING"} {
		rows["a SparkApplication begins, goes on or begins again: "+state] = healthRow{kind: "SparkApplication", spec: `spec: {}`, healthy: `applicationState: {state: ` + state + `}`}
	}
	for _, kind := range []string{"MPIJob", "PyTorchJob", "TFJob"} {
		for _, condition := range []string{"Created", "Restarting"} {
			rows[fmt.Sprintf("a %s is %s", kind, condition)] = healthRow{
				kind: kind, spec: `spec: {}`, healthy: `conditions: [{type: ` + condition + `, status: "True"}]`, unhealthy: []string{`startTime: "2026-01-01T00:00:00Z"`},
			}
		}
	}
	for _, state := range []string{"CREATED", "INITIALIZING", "RECONCILING"} {
		rows["the job of a FlinkDeployment is "+state] = healthRow{
			kind: "FlinkDeployment", spec: `spec: {job: {state: running}}`, healthy: `observedGeneration: 3, jobManagerDeploymentStatus: DEPLOYING, jobStatus: {state: ` + state + `}`,
			unhealthy: []string{`observedGeneration: 3, jobManagerDeploymentStatus: READY, jobStatus: {state: CANCELLING}`},
		}
	}
	eachKindHasARow(t, lua.HealthInterpretation, rows)
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			judge := func(status, want string) {
				t.Helper()
				verdict, err := operationsOf(t, row.kind).Verdict(object(t, row.kind, row.spec+"\n"+statusOf(status)))
				expect.NoError(t, err)
				if verdict != want {
					t.Errorf("{%s} is %s, want %s", status, verdict, want)
				}
			}
			judge(row.healthy, interpret.Healthy)
			for _, status := range row.unhealthy {
				judge(status, interpret.Unhealthy)
			}
		})
	}
}

// TestWithoutAStatusHealthIsNotKnown: the controllers of these kinds write one.
func TestWithoutAStatusHealthIsNotKnown(t *testing.T) {
	t.Parallel()
	for _, kind := range kindsWith(t, lua.HealthInterpretation) {
		verdict, err := operationsOf(t, kind).Verdict(object(t, kind, `spec: {replicas: 1}`))
		expect.NoError(t, err)
		if verdict != interpret.Unknown {
			t.Errorf("a %s without a status is %s, want Unknown", kind, verdict)
		}
	}
}
