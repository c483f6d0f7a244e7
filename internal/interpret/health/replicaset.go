// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// replicaSet follows the API of apps/v1 for ReplicaSets and, with the same
// fields, of v1 for ReplicationControllers: condition ReplicaFailure is True
// while pods cannot be created or deleted.
func replicaSet(object map[string]any) Health {
	if h, ok := seen(object); !ok {
		return h
	}
	want := fields.IntOr(1, object, "spec", "replicas")
	replicas := fields.IntOr(0, object, "status", "replicas")
	readyOnes := fields.IntOr(0, object, "status", "readyReplicas")
	available := fields.IntOr(0, object, "status", "availableReplicas")
	if c := fields.ConditionOf(object, "ReplicaFailure"); c.True() {
		return degraded(reasonOr(c.Reason, "ReplicaFailure"), "%s", because("Pods cannot be created or deleted", c.Message))
	}
	switch {
	case replicas < want:
		return progressing("ReplicasMissing", "%d of %d replicas exist.", replicas, want)
	case readyOnes < want:
		return progressing("ReplicasUnavailable", "%d of %d replicas are ready.", readyOnes, want)
	case available < want:
		return progressing("ReplicasUnavailable", "%d of %d replicas are available.", available, want)
	case replicas > want:
		return progressing("ScalingDown", "%d replicas are still there, %d are wanted.", replicas, want)
	}
	return healthy("ReplicasAvailable", "%d of %d replicas are available.", available, want)
}
