// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

func TestAWalkEndsWithThePhaseThatCannotGoOn(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "hubs"}, "hub", errors.New("changed"))
	refused := errors.New("refused")
	forbidden := fmt.Errorf("writing: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "roles"}, "agent", errors.New("no rule")))
	for name, test := range map[string]struct {
		reason string
		err    error
		want   PassOutcome
	}{
		"Done":      {"all phases were run", nil, PassOutcome{}},
		"Waiting":   {"waiting is no failure", WaitError{Message: "for pods", After: time.Second}, PassOutcome{Result: Waiting, Phase: "second", Reason: "SecondFailed", Message: "for pods", After: time.Second}},
		"OwnCause":  {"an error has a reason of its own", WaitError{Reason: "Installing", Message: "for pods"}, PassOutcome{Result: Waiting, Phase: "second", Reason: "Installing", Message: "for pods"}},
		"Mistake":   {"the user has to change something", MistakeError{Message: "no such mode"}, PassOutcome{Result: Mistake, Phase: "second", Reason: "SecondFailed", Message: "no such mode"}},
		"Away":      {"the cluster is tried again at intervals", UnreachableError{Message: "no answer", After: time.Minute}, PassOutcome{Result: Unreachable, Phase: "second", Reason: "SecondFailed", Message: "no answer", After: time.Minute}},
		"Wrapped":   {"what a phase adds does not hide it", fmt.Errorf("roles: %w", WaitError{Message: "for pods"}), PassOutcome{Result: Waiting, Phase: "second", Reason: "SecondFailed", Message: "for pods"}},
		"Failed":    {"any other error is a failure", refused, PassOutcome{Result: Failed, Phase: "second", Reason: "SecondFailed", Message: "refused"}},
		"Conflict":  {"someone else was faster", fmt.Errorf("writing: %w", conflict), PassOutcome{Result: Outdated, Phase: "second", Reason: "SecondFailed"}},
		"Both":      {"a conflict does not hide what failed besides", errors.Join(conflict, refused), PassOutcome{Result: Failed, Phase: "second", Reason: "SecondFailed", Message: conflict.Error() + "\nrefused"}},
		"Several":   {"several conflicts are no failure", errors.Join(conflict, fmt.Errorf("writing: %w", conflict)), PassOutcome{Result: Outdated, Phase: "second", Reason: "SecondFailed"}},
		"Forbidden": {"the role of the operator is for others to change", forbidden, PassOutcome{Result: Failed, Phase: "second", Reason: "SecondFailed", Message: forbidden.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			var ran []string
			phase := func(name string, err error) Phase[*[]string] {
				return Phase[*[]string]{Name: name, Reason: "SecondFailed", Run: func(_ context.Context, ran *[]string) error {
					*ran = append(*ran, name)
					return err
				}}
			}
			got := RunPhases(t.Context(), []Phase[*[]string]{phase("first", nil), phase("second", test.err), phase("third", nil)}, &ran)
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(PassOutcome{}, "Err")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
			if (got.Err == nil) != (test.err == nil || got.Result == Waiting) {
				t.Errorf("%s: the error is %v", test.reason, got.Err)
			}
			if observed := name == "Done" || name == "Mistake" || name == "Forbidden"; got.GenerationObserved() != observed {
				t.Errorf("%s: the generation counts as observed: %t, want %t", test.reason, got.GenerationObserved(), observed)
			}
			if went := len(ran) == 3; went != (test.err == nil) {
				t.Errorf("%s: ran %v", test.reason, ran)
			}
		})
	}
}

func TestAnIncompleteWalkForgetsNothing(t *testing.T) {
	record := func(name string, generation int64) render.AppliedRecord {
		return render.AppliedRecord{
			GroupVersionResource: schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
			Namespace:            "hub", Name: name, Generation: generation,
		}
	}
	before := Inventory{}.AfterPass([]render.AppliedRecord{record("a", 1), record("b", 2)}, true)
	for name, test := range map[string]struct {
		reason   string
		records  []render.AppliedRecord
		complete bool
		want     map[string]int64
	}{
		"Complete":   {"what is no longer applied is forgotten", []render.AppliedRecord{record("a", 3)}, true, map[string]int64{"a": 3}},
		"Incomplete": {"what a walk did not come to is kept", []render.AppliedRecord{record("a", 3)}, false, map[string]int64{"a": 3, "b": 2}},
		"Twice":      {"one on both clusters is listed once", []render.AppliedRecord{record("c", 0), record("c", 0)}, true, map[string]int64{"c": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			after := before.AfterPass(test.records, test.complete)
			got := map[string]int64{}
			for _, related := range after.Related {
				got[related.Name] = after.LastGenerationOf(record(related.Name, 0))
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(after.Related) != len(test.want) {
				t.Errorf("%s: %d objects (-want +got):\n%s", test.reason, len(after.Related), diff)
			}
		})
	}
}

func TestEventsTellOfChangesOnly(t *testing.T) {
	condition := func(status metav1.ConditionStatus, reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "Applied", Status: status, Reason: reason, Message: "100% of it"}}
	}
	about := &operatorv1.Klusterlet{}
	for name, test := range map[string]struct {
		reason        string
		before, after []metav1.Condition
		want          string
	}{
		"First":   {"the first condition is news", nil, condition(metav1.ConditionTrue, "Done"), corev1.EventTypeNormal + " Done 100% of it"},
		"Same":    {"another message is not", condition(metav1.ConditionTrue, "Done"), condition(metav1.ConditionTrue, "Done"), ""},
		"Failed":  {"what fails is a warning", condition(metav1.ConditionTrue, "Done"), condition(metav1.ConditionFalse, "Failed"), corev1.EventTypeWarning + " Failed 100% of it"},
		"Normal":  {"some reasons are in the order of things", nil, condition(metav1.ConditionFalse, "Installing"), corev1.EventTypeNormal + " Installing 100% of it"},
		"Unknown": {"what is not known is not worth an event", nil, condition(metav1.ConditionUnknown, "Checking"), ""},
		"Missing": {"there is nothing to tell", condition(metav1.ConditionTrue, "Done"), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(1)
			RecordConditionEvent(recorder, about, ConditionChange{Before: test.before, After: test.after, Type: "Applied", Action: ActionInstall, Normal: []string{"Installing"}})
			got := ""
			select {
			case got = <-recorder.Events:
			default:
			}
			if got != test.want {
				t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
			}
		})
	}
}
