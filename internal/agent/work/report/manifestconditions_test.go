// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
)

// customs are operations of all kinds.
type customs interpret.CustomOperations

func (c customs) Operations(schema.GroupVersionKind) interpret.Operations {
	return interpret.Operations{Custom: interpret.CustomOperations(c)}
}

// TestTheLastKnownStatusStays reports an object whose customization fails for a while.
func TestTheLastKnownStatusStays(t *testing.T) {
	t.Parallel()
	type status = map[string]any
	var had *workv1.ManifestCondition
	for i, step := range []struct {
		reflected         status
		noStatus, noState error
		want              string
	}{
		{noStatus: errors.New("it fails"), want: "health=Healthy, False InterpretationFailed"}, // none was ever known
		{reflected: status{"a": "1"}, want: `status={"a":"1"} health=Healthy, True StatusFeedbackSynced`},
		{noStatus: errors.New("it fails"), want: `status={"a":"1"} health=Healthy, False InterpretationFailed`},
		{noStatus: errors.New("it fails"), noState: errors.New("it fails"), want: `status={"a":"1"} health=Unknown, False InterpretationFailed`},
		{noState: errors.New("it fails"), want: `health=Unknown, False InterpretationFailed`}, // the status is known to be nothing
		{reflected: status{"a": "2"}, want: `status={"a":"2"} health=Healthy, True StatusFeedbackSynced`},
		{want: `health=Healthy, True StatusFeedbackSynced`},
	} {
		kinds := interpret.Chain{customs{
			Reflect: func(map[string]any) (map[string]any, error) { return step.reflected, step.noStatus },
			Verdict: func(map[string]any) (string, error) { return interpret.Healthy, step.noState },
		}}
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"resourceVersion": "1"}}}
		o := &plan.Observation{ObjectObserver: &plan.ObjectObserver{State: true, Kinds: kinds}}
		o.EvaluateObject(t.Context(), object, feedback.ValueOptions{}, nil)
		e := &statusEntry{had: had, generation: 1}
		e.addObserved(o)
		var texts []string
		for _, v := range e.StatusFeedback.Values {
			text := v.FieldValue.JSONRaw
			if text == nil {
				text = v.FieldValue.String
			}
			texts = append(texts, v.Name+"="+*text)
		}
		got := strings.Join(texts, " ")
		for _, c := range e.Conditions {
			got += fmt.Sprintf(", %s %s", c.Status, c.Reason)
		}
		if got != step.want {
			t.Errorf("report %d is %s, want %s", i, got, step.want)
		}
		had = &e.ManifestCondition
	}
}
