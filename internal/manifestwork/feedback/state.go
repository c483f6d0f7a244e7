// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// State returns what is reported of an object of a work that a binding made:
// its status, if it has one, and whether it works. A status that is too large
// is left out, which the message says.
func State(object *unstructured.Unstructured, kinds interpret.Chain) (values []workv1.FeedbackValue, messages []string) {
	if status, ok := object.Object["status"].(map[string]any); ok && len(status) > 0 {
		text, err := json.Marshal(status)
		switch {
		case err != nil:
			messages = append(messages, fmt.Sprintf("value %q: it is not JSON: %v", v1alpha1.FeedbackStatus, err))
		case len(text) > workv1.StatusSizeMax:
			messages = append(messages, fmt.Sprintf("value %q: the status of the object has %d bytes as JSON; at most %d are reported",
				v1alpha1.FeedbackStatus, len(text), workv1.StatusSizeMax))
		default:
			raw := string(text)
			values = append(values, workv1.FeedbackValue{
				Name: v1alpha1.FeedbackStatus, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &raw},
			})
		}
	}
	return append(values, healthValue(verdict(kinds.Health(object).Status))), messages
}

// StateUnknown is what is reported of an object that could not be read.
func StateUnknown() []workv1.FeedbackValue {
	return []workv1.FeedbackValue{healthValue(v1alpha1.ResourceUnknown)}
}

func healthValue(is v1alpha1.ResourceHealth) workv1.FeedbackValue {
	text := string(is)
	return workv1.FeedbackValue{
		Name: v1alpha1.FeedbackHealth, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: &text},
	}
}

func verdict(status health.Status) v1alpha1.ResourceHealth {
	switch status {
	case health.Healthy:
		return v1alpha1.ResourceHealthy
	case health.Unknown:
		return v1alpha1.ResourceUnknown
	default:
		return v1alpha1.ResourceUnhealthy
	}
}
