// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// podDisruptionBudget follows the API of policy/v1: condition DisruptionAllowed
// has reason SyncFailed if the controller cannot compute the budget, and the
// budget is met when enough pods are healthy.
func podDisruptionBudget(object map[string]any) Health {
	if h, ok := seen(object); !ok {
		return h
	}
	if c := fields.ConditionOf(object, "DisruptionAllowed"); c.False() && c.Reason == "SyncFailed" {
		return degraded(c.Reason, "%s", because("The budget cannot be computed", c.Message))
	}
	current := fields.IntOr(0, object, "status", "currentHealthy")
	want := fields.IntOr(0, object, "status", "desiredHealthy")
	if current < want {
		return progressing("InsufficientPods", "%d of the %d pods that the budget asks for are healthy.", current, want)
	}
	return healthy("BudgetMet", "%d pods are healthy, the budget asks for %d.", current, want)
}
