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
	if h, ok := seen(object); !ok {
		return h
	}
	want := fields.IntOr(1, object, "spec", "replicas")
	replicas := fields.IntOr(0, object, "status", "replicas")
	readyOnes := fields.IntOr(0, object, "status", "readyReplicas")
	available := fields.IntOr(0, object, "status", "availableReplicas")
	if c := fields.ConditionOf(object, "ReplicaFailure"); c.True() {
		return health.Degraded.Of(c, "ReplicaFailure", "Pods cannot be created or deleted")
	}
	switch {
	case replicas < want:
		return health.Progressing.With("ReplicasMissing", "%d of %d replicas exist.", replicas, want)
	case readyOnes < want:
		return health.Progressing.With("ReplicasUnavailable", "%d of %d replicas are ready.", readyOnes, want)
	case available < want:
		return health.Progressing.With("ReplicasUnavailable", "%d of %d replicas are available.", available, want)
	case replicas > want:
		return health.Progressing.With("ScalingDown", "%d replicas exist, %d desired.", replicas, want)
	}
	return health.Healthy.With("ReplicasAvailable", "%d of %d replicas are available.", available, want)
}

// replicaValues are those of all kinds that have replicas.
func replicaValues(object map[string]any) []interpret.Value {
	return []interpret.Value{
		{Name: "ReadyReplicas", Value: status(object, "readyReplicas")},
		{Name: "Replicas", Value: status(object, "replicas")},
		{Name: "AvailableReplicas", Value: status(object, "availableReplicas")},
	}
}

// replicaSetVerdict: as many replicas are available as are wanted.
func replicaSetVerdict(object map[string]any) string {
	return interpret.VerdictIf(fields.IntOr(0, object, "status", "availableReplicas") == fields.IntOr(1, object, "spec", "replicas"))
}

func replicaSetAggregate(template map[string]any, items []interpret.Item) map[string]any {
	return aggregate.Usual(template, items, aggregate.Rules{Known: true})
}
