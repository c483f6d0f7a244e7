// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/budget"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// TestAnInterruptedReadIsDoneAgain ends the context while the rules of an
// object are evaluated.
func TestAnInterruptedReadIsDoneAgain(t *testing.T) {
	set := rules.CompileConditionRules([]workv1.ConditionRule{{
		Type: workv1.ConditionRuleTypeCEL, Condition: "Open", CELExpressions: []string{"true"},
	}})
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	object.SetResourceVersion("2")
	o := &Observation{ObjectObserver: &ObjectObserver{Rules: set}, Presence: PresenceYes, Seen: "1", Next: time.Unix(1, 0)}
	o.Conditions = []metav1.Condition{{Type: "Open", Status: metav1.ConditionFalse}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.EvaluateObject(ctx, object, feedback.ValueOptions{}, budget.NewBudget(clock.RealClock{}))
	if o.Seen != "1" || len(o.Conditions) != 1 || o.Conditions[0].Status != metav1.ConditionFalse || !o.Next.IsZero() {
		t.Errorf("the object counts as read: %q with %v, next %v", o.Seen, o.Conditions, o.Next)
	}
	o.EvaluateObject(t.Context(), object, feedback.ValueOptions{}, budget.NewBudget(clock.RealClock{}))
	if o.Seen != "2" || o.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("the object was not read: %q with %v", o.Seen, o.Conditions)
	}
}
