// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"testing"

	"github.com/capstan-io/capstan/internal/interpret/health"
)

// unseen is the health of an object without a status.
var unseen = health.Health{Status: health.Progressing, Reason: "NotObserved", Message: "The controller has not observed the object yet."}

func is(status health.Status, reason, message string) health.Health {
	return health.Health{Status: status, Reason: reason, Message: message}
}

func TestDeployment(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: apps/v1\nkind: Deployment", map[string]example{
		"not seen": {`spec: {replicas: 3}`, unseen},
		"one, by default": {
			`status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "True"}]}`,
			is(health.Healthy, "ReplicasAvailable", "1 of 1 replicas are available."),
		},
		"none wanted": {
			"spec: {replicas: 0}\nstatus: {observedGeneration: 1}", is(health.Healthy, "ReplicasAvailable", "0 of 0 replicas are available."),
		},
		"two of three are available": {
			"spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 3, availableReplicas: 2}",
			is(health.Progressing, "ReplicasUnavailable", "2 of 3 replicas are available."),
		},
		"one of three is updated": {
			"spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 1, availableReplicas: 3}",
			is(health.Progressing, "RolloutInProgress", "1 of 3 replicas are up to date."),
		},
		"an old one is left": {
			"spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 4, updatedReplicas: 3, availableReplicas: 3}",
			is(health.Progressing, "RolloutInProgress", "1 old replicas are pending termination."),
		},
		"too many": {
			"spec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 3, availableReplicas: 3}",
			is(health.Progressing, "ScalingDown", "3 replicas exist, 1 desired."),
		},
		"paused in the middle": {
			"spec: {replicas: 3, paused: true}\nstatus: {observedGeneration: 1, replicas: 3, updatedReplicas: 1, availableReplicas: 3}",
			is(health.Progressing, "RolloutPaused", "The rollout is paused by spec.paused. 1 of 3 replicas are up to date."),
		},
		"deadline": {
			`status: {observedGeneration: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: ReplicaSet a has timed out.}]}`,
			is(health.Degraded, "ProgressDeadlineExceeded", "The rollout made no progress within spec.progressDeadlineSeconds: ReplicaSet a has timed out."),
		},
		"no quota": {
			`status: {observedGeneration: 1, conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: exceeded quota}]}`,
			is(health.Degraded, "FailedCreate", "Pods cannot be created or deleted: exceeded quota."),
		},
		"counts are right and Available is False": {
			`status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: "False", reason: MinimumReplicasUnavailable}]}`,
			is(health.Progressing, "MinimumReplicasUnavailable", "Condition Available is False."),
		},
	})
}

func TestStatefulSet(t *testing.T) {
	t.Parallel()
	const full = "observedGeneration: 1, replicas: 3, readyReplicas: 3, availableReplicas: 3"
	check(t, "apiVersion: apps/v1\nkind: StatefulSet", map[string]example{
		"not seen": {`spec: {replicas: 3}`, unseen},
		"two of three exist": {
			"spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 2, readyReplicas: 1}", is(health.Progressing, "ReplicasMissing", "2 of 3 replicas exist."),
		},
		"two of three are ready": {
			"spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 3, readyReplicas: 2}", is(health.Progressing, "ReplicasUnavailable", "2 of 3 replicas are ready."),
		},
		"ready for a moment": {
			"spec: {replicas: 3, minReadySeconds: 9}\nstatus: {observedGeneration: 1, replicas: 3, readyReplicas: 3, availableReplicas: 2}",
			is(health.Progressing, "ReplicasUnavailable", "2 of 3 replicas are available."),
		},
		"too many": {
			"spec: {replicas: 2}\nstatus: {" + full + "}", is(health.Progressing, "ScalingDown", "3 replicas exist, 2 desired."),
		},
		"revisions differ": {
			"spec: {replicas: 3}\nstatus: {" + full + ", updatedReplicas: 1, currentRevision: a, updateRevision: b}",
			is(health.Progressing, "RolloutInProgress", "1 of 3 replicas are at the current revision."),
		},
		"all are there": {
			"spec: {replicas: 3}\nstatus: {" + full + ", updatedReplicas: 3, currentRevision: b, updateRevision: b}",
			is(health.Healthy, "ReplicasAvailable", "3 of 3 replicas are available."),
		},
		"revisions differ and the user decides": {
			"spec: {replicas: 3, updateStrategy: {type: OnDelete}}\nstatus: {" + full + ", updatedReplicas: 1, currentRevision: a, updateRevision: b}",
			is(health.Healthy, "ReplicasAvailable", "3 of 3 replicas are available; updates apply when they are deleted."),
		},
		"below the partition": {
			"spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}\nstatus: {" + full + ", updatedReplicas: 1, currentRevision: a, updateRevision: b}",
			is(health.Progressing, "RolloutInProgress", "1 of 2 replicas at or above partition 1 are at the current revision."),
		},
		"the partition is updated": {
			"spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 1}}}\nstatus: {" + full + ", updatedReplicas: 2, currentRevision: a, updateRevision: b}",
			is(health.Healthy, "PartitionUpdated", "3 of 3 replicas are available; those at or above partition 1 are at the current revision."),
		},
		"a partition beyond all": {
			"spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 9}}}\nstatus: {" + full + ", currentRevision: a, updateRevision: b}",
			is(health.Healthy, "PartitionUpdated", "3 of 3 replicas are available; those at or above partition 9 are at the current revision."),
		},
	})
}

func TestDaemonSet(t *testing.T) {
	t.Parallel()
	check(t, "apiVersion: apps/v1\nkind: DaemonSet", map[string]example{
		"not seen": {`spec: {}`, unseen},
		"no node":  {`status: {observedGeneration: 1, desiredNumberScheduled: 0}`, is(health.Healthy, "NoNodeMatches", "No node matches.")},
		"a pod is missing": {
			`status: {observedGeneration: 1, desiredNumberScheduled: 2, currentNumberScheduled: 1}`, is(health.Progressing, "PodsMissing", "1 of 2 nodes have a pod."),
		},
		"one is old": {
			`status: {observedGeneration: 1, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 1, numberReady: 2, numberAvailable: 2}`,
			is(health.Progressing, "RolloutInProgress", "1 of 2 pods are up to date."),
		},
		"one is old and the user decides": {
			"spec: {updateStrategy: {type: OnDelete}}\nstatus: {observedGeneration: 1, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 1, numberReady: 2, numberAvailable: 2}",
			is(health.Healthy, "PodsAvailable", "2 of 2 pods are available."),
		},
		"one is not ready": {
			`status: {observedGeneration: 1, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberReady: 1}`,
			is(health.Progressing, "PodsUnavailable", "1 of 2 pods are ready."),
		},
		"one is not available": {
			`status: {observedGeneration: 1, desiredNumberScheduled: 2, currentNumberScheduled: 2, updatedNumberScheduled: 2, numberReady: 2, numberAvailable: 1}`,
			is(health.Progressing, "PodsUnavailable", "1 of 2 pods are available."),
		},
	})
}

func TestReplicaSet(t *testing.T) {
	t.Parallel()
	for _, head := range []string{"apiVersion: apps/v1\nkind: ReplicaSet", "apiVersion: v1\nkind: ReplicationController"} {
		check(t, head, map[string]example{
			"not seen": {`spec: {replicas: 3}`, unseen},
			"two of three exist": {
				"spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 2}", is(health.Progressing, "ReplicasMissing", "2 of 3 replicas exist."),
			},
			"none can be made": {
				"spec: {replicas: 3}\nstatus: {observedGeneration: 1, conditions: [{type: ReplicaFailure, status: 'True', reason: FailedCreate, message: no quota}]}",
				is(health.Degraded, "FailedCreate", "Pods cannot be created or deleted: no quota."),
			},
			"two of three are ready": {
				"spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 3, readyReplicas: 2}", is(health.Progressing, "ReplicasUnavailable", "2 of 3 replicas are ready."),
			},
			"two of three are available": {
				"spec: {replicas: 3}\nstatus: {observedGeneration: 1, replicas: 3, readyReplicas: 3, availableReplicas: 2}",
				is(health.Progressing, "ReplicasUnavailable", "2 of 3 replicas are available."),
			},
			"too many": {
				"spec: {replicas: 0}\nstatus: {observedGeneration: 1, replicas: 1}", is(health.Progressing, "ScalingDown", "1 replicas exist, 0 desired."),
			},
			"all": {
				"spec: {replicas: 1}\nstatus: {observedGeneration: 1, replicas: 1, readyReplicas: 1, availableReplicas: 1}",
				is(health.Healthy, "ReplicasAvailable", "1 of 1 replicas are available."),
			},
		})
	}
}
