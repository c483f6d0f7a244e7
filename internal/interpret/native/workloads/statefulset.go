// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"maps"
	"slices"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// statefulSetHealth follows the API of apps/v1: replicas below updateStrategy.
// rollingUpdate.partition keep the old revision on purpose, and OnDelete leaves
// it to the user when a replica gets the new one. In both cases replicas that
// are of an older revision are no lack; replicas that are not available are.
func statefulSetHealth(object map[string]any) health.Health {
	if h, ok := controllerSeen(object); !ok {
		return h
	}
	want := fields.IntOr(1, object, "spec", "replicas")
	replicas := fields.IntOr(0, object, "status", "replicas")
	readyOnes := fields.IntOr(0, object, "status", "readyReplicas")
	available := fields.IntOr(readyOnes, object, "status", "availableReplicas")
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
	return statefulSetRevisions(object, want)
}

func statefulSetRevisions(object map[string]any, want int64) health.Health {
	if fields.String(object, "spec", "updateStrategy", "type") == "OnDelete" {
		return health.Healthy.WithReason("ReplicasAvailable", "%d of %d replicas are available; updates apply when they are deleted.", want, want)
	}
	updated := fields.IntOr(0, object, "status", "updatedReplicas")
	if partition := fields.IntOr(0, object, "spec", "updateStrategy", "rollingUpdate", "partition"); partition > 0 {
		beyond := max(0, want-partition)
		if updated < beyond {
			return health.Progressing.WithReason("RolloutInProgress", "%d of %d replicas at or above partition %d are at the current revision.",
				updated, beyond, partition)
		}
		return health.Healthy.WithReason("PartitionUpdated", "%d of %d replicas are available; those at or above partition %d are at the current revision.",
			want, want, partition)
	}
	current := fields.String(object, "status", "currentRevision")
	update := fields.String(object, "status", "updateRevision")
	if current != update {
		return health.Progressing.WithReason("RolloutInProgress", "%d of %d replicas are at the current revision.", updated, want)
	}
	return health.Healthy.WithReason("ReplicasAvailable", "%d of %d replicas are available.", want, want)
}

func statefulSetValues(object map[string]any) []interpret.WellKnownValue {
	return append(replicaValues(object), interpret.WellKnownValue{Name: "UpdatedReplicas", Value: statusField(object, "updatedReplicas")})
}

// statefulSetHealthVerdict has the rule of deploymentHealthVerdict.
func statefulSetHealthVerdict(object map[string]any) string { return deploymentHealthVerdict(object) }

// statefulSetAggregate takes the two revisions from one cluster: one that has not
// finished its rollout if there is one, or else the first.
func statefulSetAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	state := aggregate.MergeUsualStatus(template, items, aggregate.AggregationRules{Known: true})
	reported := aggregate.ReportedItems(items)
	if len(reported) == 0 {
		return state
	}
	unfinished := slices.IndexFunc(reported, func(i interpret.ClusterItem) bool {
		return fields.String(i.Status, "currentRevision") != fields.String(i.Status, "updateRevision")
	})
	maps.Copy(state, fields.Only(reported[max(0, unfinished)].Status, "currentRevision", "updateRevision"))
	return state
}

// statefulSetDependencies: the controller makes the claims of
// volumeClaimTemplates, and puts them in place of volumes of the same name.
func statefulSetDependencies(object map[string]any) []interpret.Dependency {
	var made []string
	for _, template := range objectEntries(object, "spec", "volumeClaimTemplates") {
		made = append(made, fields.String(template, "metadata", "name"))
	}
	return neededByPod(fields.Map(object, "spec", "template", "spec"), made...).dependenciesIn(object)
}
