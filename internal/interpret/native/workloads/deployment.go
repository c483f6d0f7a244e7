// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// deploymentHealth follows "Deployment status" of the Kubernetes documentation: a
// rollout is complete when all replicas are of the current template and
// available and no older one is left, and it failed when condition Progressing
// is False with reason ProgressDeadlineExceeded.
func deploymentHealth(object map[string]any) health.Health {
	if h, ok := controllerSeen(object); !ok {
		return h
	}
	if c := fields.ConditionOf(object, "Progressing"); c.False() && c.Reason == "ProgressDeadlineExceeded" {
		return health.Degraded.WithReason(c.Reason, "%s", health.SentenceWithCause("The rollout made no progress within spec.progressDeadlineSeconds", c.Message))
	}
	want := fields.IntOr(1, object, "spec", "replicas")
	h := deploymentReplicas(object, want)
	if h.Status == health.Healthy {
		return h
	}
	// ReplicaFailure stays True only while pods cannot be created or deleted.
	if c := fields.ConditionOf(object, "ReplicaFailure"); c.True() {
		return health.Degraded.FromCondition(c, "ReplicaFailure", "Pods cannot be created or deleted")
	}
	if h.Reason == "RolloutInProgress" && fields.Bool(object, "spec", "paused") {
		h.Reason, h.Message = "RolloutPaused", "The rollout is paused by spec.paused. "+h.Message
	}
	return h
}

func deploymentReplicas(object map[string]any, want int64) health.Health {
	replicas := fields.IntOr(0, object, "status", "replicas")
	updated := fields.IntOr(0, object, "status", "updatedReplicas")
	available := fields.IntOr(0, object, "status", "availableReplicas")
	switch c := fields.ConditionOf(object, "Available"); {
	case updated < want:
		return health.Progressing.WithReason("RolloutInProgress", "%d of %d replicas are up to date.", updated, want)
	case replicas > updated:
		return health.Progressing.WithReason("RolloutInProgress", "%d old replicas are pending termination.", replicas-updated)
	case replicas > want:
		return health.Progressing.WithReason("ScalingDown", "%d replicas exist, %d desired.", replicas, want)
	case available < want:
		return health.Progressing.WithReason("ReplicasUnavailable", "%d of %d replicas are available.", available, want)
	case c.False():
		return health.Progressing.FromCondition(c, "MinimumReplicasUnavailable", "Condition Available is False")
	}
	return health.Healthy.WithReason("ReplicasAvailable", "%d of %d replicas are available.", available, want)
}

// deploymentHealthVerdict: all replicas that are wanted are of the current template,
// and all of those are available.
func deploymentHealthVerdict(object map[string]any) string {
	updated := fields.IntOr(0, object, "status", "updatedReplicas")
	return interpret.HealthVerdictIf(isCurrentGeneration(object) && updated >= fields.IntOr(1, object, "spec", "replicas") &&
		fields.IntOr(0, object, "status", "availableReplicas") >= updated)
}

// deploymentPrune: each cluster counts revisions of its own.
func deploymentPrune(object map[string]any) map[string]any {
	return fields.Without(object, "metadata", "annotations", "deployment.kubernetes.io/revision")
}

// deploymentAggregate: while any cluster rolls out, the reason of Progressing
// says so, and not that a new ReplicaSet is available.
func deploymentAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	return aggregate.MergeUsualStatus(template, items, aggregate.AggregationRules{Known: true, Done: map[string]string{"Progressing": "NewReplicaSetAvailable"}})
}
