// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package differential

import (
	"testing"

	"github.com/capstan-io/capstan/internal/interpret/health"
)

// observed is the generation that a controller has seen: none, the one before,
// or the present one.
var observed = field{"status.observedGeneration", some(int64(1), int64(2))}

// unseen is a difference of all kinds whose controllers report a generation.
var unseen = difference{
	health.Progressing, health.Healthy, func(s state) bool { return !s.has("status.observedGeneration") },
	"a status without observedGeneration is no controller's yet, so its numbers say nothing",
}

func TestStatesOfDeploymentsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "Deployment", apiVersion: "apps/v1",
		fields: []field{
			observed,
			{"spec.progressDeadlineSeconds", []any{int64(600)}},
			{"spec.replicas", some(int64(0), int64(2))},
			{"status.replicas", numbers(3)},
			{"status.updatedReplicas", numbers(3)},
			{"status.readyReplicas", numbers(3)},
			{"status.availableReplicas", numbers(3)},
			condition("Progressing", "True/NewReplicaSetAvailable", "True/ReplicaSetUpdated", "False/ProgressDeadlineExceeded"),
			condition("Available", "True", "False"),
			condition("ReplicaFailure", "True"),
		},
		possible: func(s state) bool {
			return s.num("status.updatedReplicas") <= s.num("status.replicas") &&
				s.num("status.availableReplicas") <= s.num("status.readyReplicas") && s.num("status.readyReplicas") <= s.num("status.replicas")
		},
		differences: []difference{
			unseen,
			{
				health.Progressing, health.Degraded, func(s state) bool { return !s.has("status.observedGeneration") },
				"a status without observedGeneration is no controller's yet, so its conditions say nothing",
			},
			{
				health.Degraded, health.Progressing, func(s state) bool { return s.condition("ReplicaFailure").True() },
				"pods that cannot be created do not come by waiting",
			},
			{
				health.Healthy, health.Progressing, func(s state) bool { return s.condition("Progressing").Reason != "NewReplicaSetAvailable" },
				"the numbers say that the rollout is complete; the condition only follows",
			},
			{
				health.Healthy, health.Progressing, func(s state) bool { return !s.condition("Available").Exists() },
				"a condition Available that is absent says nothing, and the numbers say that all are available",
			},
		},
	})
}

func TestStatesOfStatefulSetsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "StatefulSet", apiVersion: "apps/v1",
		fields: []field{
			observed,
			{"spec.replicas", some(int64(0), int64(2))},
			{"spec.updateStrategy.type", some("OnDelete")},
			{"spec.updateStrategy.rollingUpdate.partition", some(int64(0), int64(1))},
			{"status.replicas", numbers(3)},
			{"status.readyReplicas", numbers(3)},
			{"status.availableReplicas", numbers(3)},
			{"status.currentReplicas", numbers(3)},
			{"status.updatedReplicas", numbers(3)},
			{"status.currentRevision", []any{"a"}},
			{"status.updateRevision", []any{"a", "b"}},
		},
		possible: func(s state) bool {
			current, updated, replicas := s.num("status.currentReplicas"), s.num("status.updatedReplicas"), s.num("status.replicas")
			if s.text("status.updateRevision") == "a" { // both count the same replicas
				return current == replicas && updated == replicas && readyOf(s)
			}
			return current+updated <= replicas && readyOf(s)
		},
		differences: []difference{
			unseen,
			{
				health.Progressing, health.Healthy, func(s state) bool { return s.text("spec.updateStrategy.type") == "OnDelete" },
				"OnDelete leaves the revision to the user, but not how many replicas there are and whether they are available",
			},
			{
				health.Progressing, health.Healthy, func(s state) bool { return s.num("status.availableReplicas") < s.num("status.readyReplicas") },
				"a replica that was ready for less than minReadySeconds is not available yet",
			},
			{
				health.Progressing, health.Healthy,
				func(s state) bool {
					return s.has("spec.updateStrategy.rollingUpdate.partition") && s.num("spec.updateStrategy.rollingUpdate.partition") == 0
				},
				"partition 0 is the same as none: the rollout ends when the current revision is the new one",
			},
		},
	})
}

func readyOf(s state) bool {
	return s.num("status.availableReplicas") <= s.num("status.readyReplicas") && s.num("status.readyReplicas") <= s.num("status.replicas")
}

func TestStatesOfDaemonSetsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "DaemonSet", apiVersion: "apps/v1",
		fields: []field{
			observed,
			{"spec.updateStrategy.type", some("OnDelete")},
			{"status.desiredNumberScheduled", numbers(2)},
			{"status.currentNumberScheduled", numbers(2)},
			{"status.updatedNumberScheduled", numbers(2)},
			{"status.numberReady", numbers(2)},
			{"status.numberAvailable", numbers(2)},
		},
		possible: func(s state) bool { return s.num("status.numberAvailable") <= s.num("status.numberReady") },
		differences: []difference{{
			health.Healthy, health.Progressing, func(s state) bool { return s.text("spec.updateStrategy.type") == "OnDelete" },
			"OnDelete leaves it to the user when a pod gets the current template",
		}},
	})
}

func TestStatesOfReplicaSetsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "ReplicaSet", apiVersion: "apps/v1",
		fields: []field{
			observed,
			{"spec.replicas", some(int64(0), int64(2))},
			{"status.replicas", numbers(3)},
			{"status.fullyLabeledReplicas", numbers(3)},
			{"status.readyReplicas", numbers(3)},
			{"status.availableReplicas", numbers(3)},
			condition("ReplicaFailure", "True"),
		},
		possible: func(s state) bool {
			return s.num("status.fullyLabeledReplicas") <= s.num("status.replicas") && readyOf(s)
		},
		differences: []difference{
			unseen,
			{
				health.Degraded, health.Progressing, func(s state) bool { return s.condition("ReplicaFailure").True() },
				"pods that cannot be created do not come by waiting",
			},
			{
				health.Healthy, health.Progressing, func(s state) bool { return s.num("status.fullyLabeledReplicas") < s.num("status.replicas") },
				"pods that lack a label of the template, as it was changed after them, run as well",
			},
		},
	})
}

func TestStatesOfJobsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "Job", apiVersion: "batch/v1",
		fields: []field{
			{"spec.suspend", some(true)},
			{"spec.completions", some(int64(2))},
			{"status.startTime", some("2026-01-01T00:00:00Z")},
			{"status.active", numbers(1)},
			{"status.succeeded", numbers(2)},
			condition("Suspended", "True"),
			condition("FailureTarget", "True"),
			condition("Complete", "True"),
			condition("Failed", "True"),
		},
		possible: func(s state) bool { return !s.condition("Complete").True() || !s.condition("Failed").True() },
		differences: []difference{
			{
				health.Degraded, health.Healthy, func(s state) bool { return s.condition("FailureTarget").True() },
				"a job that has failed and whose pods are ending does not succeed any more",
			},
			{
				health.Degraded, health.Progressing, func(s state) bool { return s.condition("FailureTarget").True() },
				"a job that has failed before it started does not succeed any more",
			},
			{
				health.Progressing, health.Healthy, func(s state) bool { return s.has("status.startTime") },
				"a job that runs is Progressing until it ends, so that who waits for it waits for its result",
			},
		},
	})
}

func TestStatesOfCronJobsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "CronJob", apiVersion: "batch/v1",
		fields: []field{
			{"spec.suspend", some(true)},
			{"status.active", some([]any{map[string]any{"name": "a"}})},
			{"status.lastScheduleTime", some("2026-01-02T00:00:00Z")},
			{"status.lastSuccessfulTime", some("2026-01-01T00:00:00Z", "2026-01-02T00:00:10Z")},
		},
		differences: []difference{{
			health.Degraded, health.Healthy, func(s state) bool { return s.text("status.lastScheduleTime") > s.text("status.lastSuccessfulTime") },
			"the last job did not succeed",
		}},
	})
}

func TestStatesOfPodsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	waiting := func(reason string) any {
		return []any{map[string]any{"name": "a", "state": map[string]any{"waiting": map[string]any{"reason": reason}}}}
	}
	stuck := func(s state) bool { return s.has("status.containerStatuses") || s.has("status.initContainerStatuses") }
	judgeStates(t, kind{
		name: "Pod", apiVersion: "v1",
		fields: []field{
			{"status.phase", some("Pending", "Running", "Succeeded", "Failed", "Unknown")},
			{"status.containerStatuses", some(waiting("ContainerCreating"), waiting("CrashLoopBackOff"), waiting("ImagePullBackOff"))},
			{"status.initContainerStatuses", some(waiting("CrashLoopBackOff"))},
			condition("PodScheduled", "True", "False/Unschedulable", "False/SchedulingGated"),
			condition("Ready", "True", "False"),
		},
		possible: func(s state) bool {
			phase, isReady, hasNode := s.text("status.phase"), s.condition("Ready").True(), !s.condition("PodScheduled").False()
			return (!isReady || phase == "Running" && !stuck(s)) && (hasNode || phase == "Pending" && !stuck(s))
		},
		differences: []difference{
			{
				health.Degraded, health.Healthy, func(s state) bool { return s.text("status.phase") == "Failed" },
				"a pod that failed did not do what it is for",
			},
			{
				health.Progressing, health.Degraded, func(s state) bool { return s.condition("PodScheduled").Reason == "Unschedulable" },
				"a node may come, and nothing depends on the time of day, as the 15 seconds of kstatus do",
			},
			{
				health.Degraded, health.Progressing, stuck,
				"an image that cannot be pulled and an init container that crashes do not mend by waiting, in any phase",
			},
		},
	})
}

func TestStatesOfServicesAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "Service", apiVersion: "v1",
		fields: []field{
			{"spec.type", some("ClusterIP", "LoadBalancer", "ExternalName")},
			{"spec.clusterIP", some("10.0.0.1")},
			{"status.loadBalancer.ingress", some([]any{map[string]any{"ip": "192.0.2.1"}})},
		},
		possible: func(s state) bool { return s.has("spec.clusterIP") || !s.has("status.loadBalancer.ingress") },
		differences: []difference{{
			health.Progressing, health.Healthy, func(s state) bool { return s.text("spec.type") == "LoadBalancer" },
			"a load balancer without an address is not reached from outside, which it is for",
		}},
	})
}

func TestStatesOfPersistentVolumeClaimsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "PersistentVolumeClaim", apiVersion: "v1",
		fields: []field{
			{"status.phase", some("Pending", "Bound", "Lost")},
			condition("Resizing", "True", "False"),
			condition("FileSystemResizePending", "True"),
			condition("ControllerResizeError", "True"),
			condition("ModifyVolumeError", "True"),
		},
		differences: []difference{
			{
				health.Degraded, health.Progressing, func(s state) bool { return s.text("status.phase") == "Lost" },
				"a volume that is gone does not come back",
			},
			{
				health.Degraded, health.Healthy,
				func(s state) bool {
					return s.condition("ControllerResizeError").True() || s.condition("ModifyVolumeError").True()
				},
				"a change of the volume failed",
			},
			{
				health.Progressing, health.Healthy,
				func(s state) bool {
					return s.condition("Resizing").True() || s.condition("FileSystemResizePending").True()
				},
				"the volume does not have the size yet that is asked for",
			},
		},
	})
}

func TestStatesOfPodDisruptionBudgetsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "PodDisruptionBudget", apiVersion: "policy/v1",
		fields: []field{
			observed,
			{"status.currentHealthy", numbers(2)},
			{"status.desiredHealthy", numbers(2)},
			condition("DisruptionAllowed", "True", "False/InsufficientPods", "False/SyncFailed"),
		},
		differences: []difference{
			unseen,
			{
				health.Degraded, health.Healthy, func(s state) bool { return s.condition("DisruptionAllowed").Reason == "SyncFailed" },
				"a budget that cannot be computed protects nothing",
			},
			{
				health.Progressing, health.Healthy, func(s state) bool { return s.num("status.currentHealthy") < s.num("status.desiredHealthy") },
				"a budget with fewer healthy pods than it asks for is not met",
			},
		},
	})
}

func TestStatesOfCustomResourceDefinitionsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "CustomResourceDefinition", apiVersion: "apiextensions.k8s.io/v1",
		fields: []field{
			condition("NamesAccepted", "True", "False/ListKindConflict"),
			condition("Established", "True", "False/Installing", "False/NotAccepted", "Unknown"),
		},
	})
}

// TestStatesOfThingsAreJudgedAlikeOrForAReason is about a kind that neither knows, which the conventions judge.
func TestStatesOfThingsAreJudgedAlikeOrForAReason(t *testing.T) {
	t.Parallel()
	judgeStates(t, kind{
		name: "Thing", apiVersion: "example.com/v1",
		fields: []field{
			{"metadata.deletionTimestamp", some("2026-01-01T00:00:00Z")},
			{"status.observedGeneration", some(int64(1), int64(2), int64(3))},
			condition("Reconciling", "True", "False"),
			condition("Stalled", "True", "False"),
			condition("Ready", "True", "False", "Unknown"),
		},
		differences: []difference{
			{
				health.Degraded, health.Progressing,
				func(s state) bool { return s.condition("Stalled").True() && s.condition("Reconciling").True() },
				"a controller that has given up has done so, in whatever order it says that",
			},
			{
				health.Healthy, health.Progressing, func(s state) bool { return s.num("status.observedGeneration") > 2 },
				"an object that was restored or moved has a smaller generation than the one that was seen",
			},
			{
				health.Degraded, health.Progressing, func(s state) bool { return s.num("status.observedGeneration") > 2 },
				"the same of an object that says that its controller has given up",
			},
		},
	})
}
