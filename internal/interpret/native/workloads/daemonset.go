// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// daemonSetHealth follows the API of apps/v1: status counts nodes, the ones that
// should have a pod and those that have one, of the current template, that is
// available. With OnDelete the user decides when a pod is replaced, so older
// ones are no lack.
func daemonSetHealth(object map[string]any) health.Health {
	if h, ok := controllerSeen(object); !ok {
		return h
	}
	want := fields.IntOr(0, object, "status", "desiredNumberScheduled")
	scheduled := fields.IntOr(0, object, "status", "currentNumberScheduled")
	updated := fields.IntOr(0, object, "status", "updatedNumberScheduled")
	readyOnes := fields.IntOr(0, object, "status", "numberReady")
	available := fields.IntOr(0, object, "status", "numberAvailable")
	onDelete := fields.String(object, "spec", "updateStrategy", "type") == "OnDelete"
	switch {
	case want == 0:
		return health.Healthy.WithReason("NoNodeMatches", "No node matches.")
	case scheduled < want:
		return health.Progressing.WithReason("PodsMissing", "%d of %d nodes have a pod.", scheduled, want)
	case updated < want && !onDelete:
		return health.Progressing.WithReason("RolloutInProgress", "%d of %d pods are up to date.", updated, want)
	case readyOnes < want:
		return health.Progressing.WithReason("PodsUnavailable", "%d of %d pods are ready.", readyOnes, want)
	case available < want:
		return health.Progressing.WithReason("PodsUnavailable", "%d of %d pods are available.", available, want)
	}
	return health.Healthy.WithReason("PodsAvailable", "%d of %d pods are available.", available, want)
}

func daemonSetValues(object map[string]any) []interpret.WellKnownValue {
	return []interpret.WellKnownValue{
		{Name: "NumberReady", Value: statusField(object, "numberReady")},
		{Name: "DesiredNumberScheduled", Value: statusField(object, "desiredNumberScheduled")},
		{Name: "NumberAvailable", Value: statusField(object, "numberAvailable")},
	}
}

// daemonSetHealthVerdict: each node that should have a pod has one of the current
// template, and all of those are available.
func daemonSetHealthVerdict(object map[string]any) string {
	updated := fields.IntOr(0, object, "status", "updatedNumberScheduled")
	return interpret.HealthVerdictIf(isCurrentGeneration(object) && updated >= fields.IntOr(0, object, "status", "desiredNumberScheduled") &&
		fields.IntOr(0, object, "status", "numberAvailable") >= updated)
}

func daemonSetAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	return aggregate.MergeUsualStatus(template, items, aggregate.AggregationRules{Known: true, Sums: []string{
		"currentNumberScheduled", "desiredNumberScheduled", "updatedNumberScheduled",
		"numberAvailable", "numberMisscheduled", "numberReady", "numberUnavailable",
	}})
}
