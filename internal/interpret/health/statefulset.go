// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// statefulSet follows the API of apps/v1: replicas below updateStrategy.
// rollingUpdate.partition keep the old revision on purpose, and OnDelete leaves
// it to the user when a replica gets the new one. In both cases replicas that
// are of an older revision are no lack; replicas that are not available are.
func statefulSet(object map[string]any) Health {
	if h, ok := seen(object); !ok {
		return h
	}
	want := fields.IntOr(1, object, "spec", "replicas")
	replicas := fields.IntOr(0, object, "status", "replicas")
	readyOnes := fields.IntOr(0, object, "status", "readyReplicas")
	available := fields.IntOr(readyOnes, object, "status", "availableReplicas")
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
	return statefulSetRevisions(object, want)
}

func statefulSetRevisions(object map[string]any, want int64) Health {
	if fields.String(object, "spec", "updateStrategy", "type") == "OnDelete" {
		return healthy("ReplicasAvailable", "%d of %d replicas are available; they are updated when they are deleted.", want, want)
	}
	updated := fields.IntOr(0, object, "status", "updatedReplicas")
	if partition := fields.IntOr(0, object, "spec", "updateStrategy", "rollingUpdate", "partition"); partition > 0 {
		beyond := max(0, want-partition)
		if updated < beyond {
			return progressing("RolloutInProgress", "%d of %d replicas at or above partition %d are of the current revision.",
				updated, beyond, partition)
		}
		return healthy("PartitionUpdated", "%d of %d replicas are available; those at or above partition %d are of the current revision.",
			want, want, partition)
	}
	current, update := fields.String(object, "status", "currentRevision"), fields.String(object, "status", "updateRevision")
	if current != update {
		return progressing("RolloutInProgress", "%d of %d replicas are of the current revision.", updated, want)
	}
	return healthy("ReplicasAvailable", "%d of %d replicas are available.", want, want)
}
