// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"encoding/json"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// hpaConditionsAnnotation has the conditions in autoscaling/v1, whose status
// has no field for them.
const hpaConditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"

// horizontalPodAutoscalerHealth follows the API of autoscaling/v2: AbleToScale and
// ScalingActive are False when the autoscaler cannot do its work.
// ScalingActive with reason ScalingDisabled means that its target is scaled to
// zero, which is what someone wanted.
func horizontalPodAutoscalerHealth(object map[string]any) health.Health {
	list := hpaConditions(object)
	if len(list) == 0 {
		return health.Progressing.WithReason("NotObserved", "The autoscaler has not evaluated its target yet.")
	}
	able := hpaCondition(list, "AbleToScale")
	active := hpaCondition(list, "ScalingActive")
	switch {
	case able.False():
		return health.Degraded.FromCondition(able, "NotAbleToScale", "The target cannot be scaled")
	case active.False() && active.Reason == "ScalingDisabled":
		return health.Healthy.WithReason(active.Reason, "%s", health.SentenceWithCause("The target is scaled to zero", active.Message))
	case active.False():
		return health.Degraded.FromCondition(active, "ScalingInactive", "The number of replicas cannot be computed")
	}
	current := fields.IntOr(0, object, "status", "currentReplicas")
	want := fields.IntOr(0, object, "status", "desiredReplicas")
	if current != want {
		return health.Progressing.WithReason("Scaling", "The target has %d replicas, %d desired.", current, want)
	}
	return health.Healthy.WithReason("ScalingActive", "The target has the desired %d replicas.", current)
}

// hpaCondition returns the first condition of a type, the zero value for none.
func hpaCondition(list []fields.Condition, name string) fields.Condition {
	for _, c := range list {
		if c.Type == name {
			return c
		}
	}
	return fields.Condition{}
}

func hpaConditions(object map[string]any) []fields.Condition {
	if list := fields.Conditions(object); len(list) > 0 {
		return list
	}
	text := fields.String(object, "metadata", "annotations", hpaConditionsAnnotation)
	if text == "" {
		return nil
	}
	var list []any
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil // not conditions, so there are none
	}
	return fields.Conditions(map[string]any{"status": map[string]any{"conditions": list}})
}

func horizontalPodAutoscalerValues(object map[string]any) []interpret.WellKnownValue {
	return []interpret.WellKnownValue{
		{Name: "CurrentReplicas", Value: statusField(object, "currentReplicas")},
		{Name: "DesiredReplicas", Value: statusField(object, "desiredReplicas")},
	}
}

func horizontalPodAutoscalerAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	state := aggregate.MergeUsualStatus(template, items, aggregate.AggregationRules{Known: true})
	setLatest(state, items, "lastScaleTime")
	return state
}
