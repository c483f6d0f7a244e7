// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
)

// State returns what is reported of an object of a work that a binding made:
// its status, if it has one, and whether it does what it is for. A status that is too large
// is left out, which the message says. So is what a customization of the kind fails
// to say: the errors are these.
func State(object *unstructured.Unstructured, kinds interpret.Chain) (values []workv1.FeedbackValue, messages []string, failed error) {
	status, failed := kinds.Reflect(object)
	if len(status) > 0 {
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
	verdict, err := kinds.Verdict(object)
	return append(values, healthValue(verdict)), messages, errors.Join(failed, err)
}

// StateUnknown is what is reported of an object that could not be read.
func StateUnknown() []workv1.FeedbackValue {
	return []workv1.FeedbackValue{healthValue(interpret.Unknown)}
}

func healthValue(is string) workv1.FeedbackValue {
	return workv1.FeedbackValue{
		Name: v1alpha1.FeedbackHealth, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: &is},
	}
}
