// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	"github.com/capstan-io/capstan/internal/interpret/health"
)

func TestJob(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: batch/v1\nkind: Job", map[string]example{
		"not started": {`spec: {completions: 2}`, is(health.Progressing, "JobNotStarted", "The job has not started.")},
		"running": {
			"spec: {completions: 3}\nstatus: {startTime: '2024-01-01T00:00:00Z', active: 1, succeeded: 1, failed: 2}",
			is(health.Progressing, "JobRunning", "1 of 3 pods succeeded, 1 running, 2 failed."),
		},
		"running without a number": {
			"status: {startTime: '2024-01-01T00:00:00Z', active: 1}", is(health.Progressing, "JobRunning", "0 pods succeeded, 1 running, 0 failed."),
		},
		"suspended": {`spec: {suspend: true}`, is(health.Progressing, "JobSuspended", "The job is suspended.")},
		"complete": {
			`status: {succeeded: 3, conditions: [{type: Complete, status: "True"}]}`, is(health.Healthy, "JobComplete", "The job is complete: 3 pods succeeded."),
		},
		"failed": {
			`status: {conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: Job has reached the specified backoff limit}]}`,
			is(health.Degraded, "BackoffLimitExceeded", "The job failed: Job has reached the specified backoff limit."),
		},
		"failing": {
			"status: {startTime: '2024-01-01T00:00:00Z', active: 1, conditions: [{type: FailureTarget, status: 'True', reason: PodFailurePolicy}]}",
			is(health.Degraded, "PodFailurePolicy", "The job failed and its pods are terminating."),
		},
	})
}

func TestCronJob(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: batch/v1\nkind: CronJob", map[string]example{
		"new":       {`spec: {}`, is(health.Healthy, "NotScheduledYet", "No job has been scheduled yet.")},
		"suspended": {`spec: {suspend: true}`, is(health.Healthy, "Suspended", "The cron job is suspended and starts no jobs.")},
		"running": {
			`status: {active: [{name: a}], lastScheduleTime: "2024-01-01T02:00:00Z", lastSuccessfulTime: "2024-01-01T01:00:30Z"}`,
			is(health.Healthy, "JobsActive", "1 jobs are running."),
		},
		"the last one succeeded": {
			`status: {lastScheduleTime: "2024-01-01T02:00:00Z", lastSuccessfulTime: "2024-01-01T02:00:30Z"}`,
			is(health.Healthy, "LastJobSucceeded", "The job scheduled at 2024-01-01T02:00:00Z succeeded."),
		},
		"the last one failed": {
			`status: {lastScheduleTime: "2024-01-01T02:00:00Z", lastSuccessfulTime: "2024-01-01T01:00:30Z"}`,
			is(health.Degraded, "LastJobNotSuccessful", "The job scheduled at 2024-01-01T02:00:00Z did not succeed."),
		},
		"none ever succeeded": {
			`status: {lastScheduleTime: "2024-01-01T02:00:00Z"}`,
			is(health.Degraded, "LastJobNotSuccessful", "The job scheduled at 2024-01-01T02:00:00Z did not succeed."),
		},
		"an odd time": {
			`status: {lastScheduleTime: yesterday}`, is(health.Unknown, "StatusNotReadable", "The cron job's lastScheduleTime is not a time."),
		},
	})
}

func TestPod(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: v1\nkind: Pod", map[string]example{
		"no phase":  {`spec: {}`, is(health.Progressing, "PodNotObserved", "The pod has no phase yet.")},
		"succeeded": {`status: {phase: Succeeded}`, is(health.Healthy, "PodSucceeded", "All containers terminated successfully.")},
		"evicted": {
			`status: {phase: Failed, reason: Evicted, message: The node was low on memory.}`, is(health.Degraded, "Evicted", "The pod failed: The node was low on memory."),
		},
		"ended with an error": {
			`status: {phase: Failed, containerStatuses: [odd, {name: a, state: {terminated: {exitCode: 0}}}, {name: b, state: {terminated: {exitCode: 3}}}]}`,
			is(health.Degraded, "PodFailed", "The pod failed: container b terminated with exit code 3."),
		},
		"no node fits": {
			`status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: Unschedulable, message: "0/3 nodes are available"}]}`,
			is(health.Progressing, "Unschedulable", "The pod has no node: 0/3 nodes are available."),
		},
		"gated": {
			`status: {phase: Pending, conditions: [{type: PodScheduled, status: "False", reason: SchedulingGated}]}`,
			is(health.Progressing, "SchedulingGated", "The pod has no node."),
		},
		"being started": {
			`status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ContainerCreating}}}]}`,
			is(health.Progressing, "PodPending", "The pod's containers are being started."),
		},
		"no image": {
			`status: {phase: Pending, containerStatuses: [{name: a, state: {waiting: {reason: ImagePullBackOff, message: Back-off pulling image x}}}]}`,
			is(health.Degraded, "ImagePullBackOff", "Container a cannot run: Back-off pulling image x."),
		},
		"an init container crashes": {
			`status: {phase: Pending, initContainerStatuses: [{name: i, state: {waiting: {reason: CrashLoopBackOff, message: back-off 10s}}, lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}`,
			is(health.Degraded, "CrashLoopBackOff", "Container i cannot run: terminated with exit code 137, OOMKilled; back-off 10s."),
		},
		"running": {
			`status: {phase: Running, conditions: [{type: Ready, status: "False", reason: ContainersNotReady, message: "containers with unready status: [a]"}]}`,
			is(health.Progressing, "PodNotReady", "The pod is running but not ready: containers with unready status: [a]."),
		},
		"ready":         {`status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`, is(health.Healthy, "PodReady", "The pod is ready.")},
		"its node died": {`status: {phase: Unknown, reason: NodeLost}`, is(health.Unknown, "NodeLost", "The state of the pod is unknown.")},
	})
}

func TestHorizontalPodAutoscaler(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler", map[string]example{
		"new": {`spec: {}`, is(health.Progressing, "NotObserved", "The autoscaler has not evaluated its target yet.")},
		"no target": {
			`status: {conditions: [{type: AbleToScale, status: "False", reason: FailedGetScale, message: not found}]}`,
			is(health.Degraded, "FailedGetScale", "The target cannot be scaled: not found."),
		},
		"no metrics": {
			`status: {conditions: [{type: AbleToScale, status: "True"}, {type: ScalingActive, status: "False", reason: FailedGetResourceMetric, message: no metrics}]}`,
			is(health.Degraded, "FailedGetResourceMetric", "The number of replicas cannot be computed: no metrics."),
		},
		"scaled to zero": {
			`status: {conditions: [{type: ScalingActive, status: "False", reason: ScalingDisabled}]}`, is(health.Healthy, "ScalingDisabled", "The target is scaled to zero."),
		},
		"no target, whatever the order": {
			`status: {conditions: [{type: ScalingActive, status: "False", reason: ScalingDisabled}, {type: AbleToScale, status: "False", reason: FailedGetScale}]}`,
			is(health.Degraded, "FailedGetScale", "The target cannot be scaled."),
		},
		"scaling": {
			`status: {currentReplicas: 2, desiredReplicas: 4, conditions: [{type: ScalingActive, status: "True"}]}`,
			is(health.Progressing, "Scaling", "The target has 2 replicas, 4 desired."),
		},
		"done": {
			`status: {currentReplicas: 2, desiredReplicas: 2, conditions: [{type: ScalingActive, status: "True"}]}`,
			is(health.Healthy, "ScalingActive", "The target has the desired 2 replicas."),
		},
		"conditions of version 1": {
			`metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: '[{"type": "AbleToScale", "status": "False", "reason": "FailedGetScale"}]'}}`,
			is(health.Degraded, "FailedGetScale", "The target cannot be scaled."),
		},
		"an annotation that is no list": {
			`metadata: {annotations: {autoscaling.alpha.kubernetes.io/conditions: 'odd'}}`, is(health.Progressing, "NotObserved", "The autoscaler has not evaluated its target yet."),
		},
	})
}
