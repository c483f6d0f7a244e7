// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// deployment follows "Deployment status" of the Kubernetes documentation: a
// rollout is complete when all replicas are of the current template and
// available and no older one is left, and it failed when condition Progressing
// is False with reason ProgressDeadlineExceeded.
func deployment(object map[string]any) Health {
	if h, ok := seen(object); !ok {
		return h
	}
	if c := fields.ConditionOf(object, "Progressing"); c.False() && c.Reason == "ProgressDeadlineExceeded" {
		return degraded(c.Reason, "%s", because("The rollout made no progress within spec.progressDeadlineSeconds", c.Message))
	}
	want := fields.IntOr(1, object, "spec", "replicas")
	h := deploymentReplicas(object, want)
	if h.Status == Healthy {
		return h
	}
	// ReplicaFailure stays True only while pods cannot be created or deleted.
	if c := fields.ConditionOf(object, "ReplicaFailure"); c.True() {
		return degraded(reasonOr(c.Reason, "ReplicaFailure"), "%s", because("Pods cannot be created or deleted", c.Message))
	}
	if h.Reason == "RolloutInProgress" && fields.Bool(object, "spec", "paused") {
		h.Reason, h.Message = "RolloutPaused", "The rollout is paused by spec.paused. "+h.Message
	}
	return h
}

func deploymentReplicas(object map[string]any, want int64) Health {
	replicas := fields.IntOr(0, object, "status", "replicas")
	updated := fields.IntOr(0, object, "status", "updatedReplicas")
	available := fields.IntOr(0, object, "status", "availableReplicas")
	switch c := fields.ConditionOf(object, "Available"); {
	case updated < want:
		return progressing("RolloutInProgress", "%d of %d replicas are of the current template.", updated, want)
	case replicas > updated:
		return progressing("RolloutInProgress", "%d replicas of older templates are still there.", replicas-updated)
	case replicas > want:
		return progressing("ScalingDown", "%d replicas are still there, %d are wanted.", replicas, want)
	case available < want:
		return progressing("ReplicasUnavailable", "%d of %d replicas are available.", available, want)
	case c.False():
		return progressing(reasonOr(c.Reason, "MinimumReplicasUnavailable"), "%s", because("Condition Available is False", c.Message))
	}
	return healthy("ReplicasAvailable", "%d of %d replicas are available.", available, want)
}
