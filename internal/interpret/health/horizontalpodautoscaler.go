// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"encoding/json"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// hpaConditionsAnnotation has the conditions in autoscaling/v1, whose status
// has no field for them.
const hpaConditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"

// horizontalPodAutoscaler follows the API of autoscaling/v2: AbleToScale and
// ScalingActive are False when the autoscaler cannot do its work.
// ScalingActive with reason ScalingDisabled means that its target is scaled to
// zero, which is what someone wanted.
func horizontalPodAutoscaler(object map[string]any) Health {
	list := hpaConditions(object)
	if len(list) == 0 {
		return progressing("NotObserved", "The autoscaler has not judged its target yet.")
	}
	for _, c := range list {
		switch {
		case c.Type == "AbleToScale" && c.False():
			return degraded(reasonOr(c.Reason, "NotAbleToScale"), "%s", because("The target cannot be scaled", c.Message))
		case c.Type == "ScalingActive" && c.False() && c.Reason == "ScalingDisabled":
			return healthy(c.Reason, "%s", because("The target is scaled to zero", c.Message))
		case c.Type == "ScalingActive" && c.False():
			return degraded(reasonOr(c.Reason, "ScalingInactive"), "%s", because("The number of replicas cannot be computed", c.Message))
		}
	}
	current := fields.IntOr(0, object, "status", "currentReplicas")
	want := fields.IntOr(0, object, "status", "desiredReplicas")
	if current != want {
		return progressing("Scaling", "The target has %d replicas, %d are wanted.", current, want)
	}
	return healthy("ScalingActive", "The target has %d replicas, as wanted.", current)
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
