// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
)

// ReportedState is what is reported of an object of a work that a binding made.
type ReportedState struct {
	Values []workv1.FeedbackValue
	// Unread says what is left out.
	Unread []string
	// Unreflected says that nobody knows what of the status is reported now, as a
	// customization of the kind failed to say so. The status that was reported last
	// is the last one that is known.
	Unreflected bool
	// Failed is why customizations of the kind did not say what the object says.
	Failed error
}

// ReportedStateOf returns what is reported of an object of a work that a binding made:
// its status, if it has one, and whether it does what it is for. A status that is too
// large is left out.
func ReportedStateOf(object *unstructured.Unstructured, kinds interpret.Chain) ReportedState {
	said := ReportedState{}
	status, failed := kinds.ReflectStatus(object)
	said.Unreflected = failed != nil
	if len(status) > 0 {
		text, err := json.Marshal(status)
		switch {
		case err != nil:
			said.Unread = append(said.Unread, fmt.Sprintf("value %q: it is not JSON: %v", v1alpha1.FeedbackStatus, err))
		case len(text) > workv1.StatusSizeMax:
			said.Unread = append(said.Unread, fmt.Sprintf("value %q: the status of the object has %d bytes as JSON; at most %d are reported",
				v1alpha1.FeedbackStatus, len(text), workv1.StatusSizeMax))
		default:
			raw := string(text)
			said.Values = append(said.Values, workv1.FeedbackValue{
				Name: v1alpha1.FeedbackStatus, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &raw},
			})
		}
	}
	verdict, err := kinds.InterpretHealth(object)
	said.Values = append(said.Values, healthValue(verdict))
	said.Failed = errors.Join(failed, err)
	return said
}

// LastKnown returns the values with the status that was reported before, if one was.
func LastKnown(values, before []workv1.FeedbackValue) []workv1.FeedbackValue {
	at := slices.IndexFunc(before, func(v workv1.FeedbackValue) bool { return v.Name == v1alpha1.FeedbackStatus })
	if at < 0 {
		return values
	}
	return append([]workv1.FeedbackValue{before[at]}, values...)
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
