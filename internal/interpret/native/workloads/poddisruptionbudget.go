// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// podDisruptionBudgetHealth follows the API of policy/v1: condition DisruptionAllowed
// has reason SyncFailed if the controller cannot compute the budget, and the
// budget is met when enough pods are healthy.
func podDisruptionBudgetHealth(object map[string]any) health.Health {
	if h, ok := controllerSeen(object); !ok {
		return h
	}
	if c := fields.ConditionOf(object, "DisruptionAllowed"); c.False() && c.Reason == "SyncFailed" {
		return health.Degraded.WithReason(c.Reason, "%s", health.SentenceWithCause("The budget cannot be computed", c.Message))
	}
	current := fields.IntOr(0, object, "status", "currentHealthy")
	want := fields.IntOr(0, object, "status", "desiredHealthy")
	if current < want {
		return health.Progressing.WithReason("InsufficientPods", "%d of the %d required pods are healthy.", current, want)
	}
	return health.Healthy.WithReason("BudgetMet", "%d pods are healthy, %d required.", current, want)
}

// podDisruptionBudgetHealthVerdict: no fewer pods are healthy than are required.
func podDisruptionBudgetHealthVerdict(object map[string]any) string {
	return interpret.HealthVerdictIf(fields.IntOr(0, object, "status", "desiredHealthy") <= fields.IntOr(0, object, "status", "currentHealthy"))
}

// podDisruptionBudgetAggregate names the pods that are being disrupted after
// their clusters.
func podDisruptionBudgetAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	state := aggregate.MergeUsualStatus(template, items, aggregate.AggregationRules{Known: true, Sums: []string{
		"currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods",
	}})
	pods := map[string]any{}
	for _, item := range items {
		for name, at := range fields.Map(item.Status, "disruptedPods") {
			pods[item.Cluster+"/"+name] = at
		}
	}
	if len(pods) > 0 {
		state["disruptedPods"] = pods
	}
	return state
}
