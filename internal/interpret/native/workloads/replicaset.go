// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// replicaSetHealth follows the API of apps/v1 for ReplicaSets and, with the same
// fields, of v1 for ReplicationControllers: condition ReplicaFailure is True
// while pods cannot be created or deleted.
func replicaSetHealth(object map[string]any) health.Health {
	if h, ok := controllerSeen(object); !ok {
		return h
	}
	want := fields.IntOr(1, object, "spec", "replicas")
	replicas := fields.IntOr(0, object, "status", "replicas")
	readyOnes := fields.IntOr(0, object, "status", "readyReplicas")
	available := fields.IntOr(0, object, "status", "availableReplicas")
	if c := fields.ConditionOf(object, "ReplicaFailure"); c.True() {
		return health.Degraded.FromCondition(c, "ReplicaFailure", "Pods cannot be created or deleted")
	}
	switch {
	case replicas < want:
		return health.Progressing.WithReason("ReplicasMissing", "%d of %d replicas exist.", replicas, want)
	case readyOnes < want:
		return health.Progressing.WithReason("ReplicasUnavailable", "%d of %d replicas are ready.", readyOnes, want)
	case available < want:
		return health.Progressing.WithReason("ReplicasUnavailable", "%d of %d replicas are available.", available, want)
	case replicas > want:
		return health.Progressing.WithReason("ScalingDown", "%d replicas exist, %d desired.", replicas, want)
	}
	return health.Healthy.WithReason("ReplicasAvailable", "%d of %d replicas are available.", available, want)
}

// replicaValues are those of all kinds that have replicas.
func replicaValues(object map[string]any) []interpret.WellKnownValue {
	return []interpret.WellKnownValue{
		{Name: "ReadyReplicas", Value: statusField(object, "readyReplicas")},
		{Name: "Replicas", Value: statusField(object, "replicas")},
		{Name: "AvailableReplicas", Value: statusField(object, "availableReplicas")},
	}
}

// replicaSetHealthVerdict: as many replicas are available as are wanted.
func replicaSetHealthVerdict(object map[string]any) string {
	return interpret.HealthVerdictIf(fields.IntOr(0, object, "status", "availableReplicas") == fields.IntOr(1, object, "spec", "replicas"))
}

func replicaSetAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	return aggregate.MergeUsualStatus(template, items, aggregate.AggregationRules{Known: true})
}
