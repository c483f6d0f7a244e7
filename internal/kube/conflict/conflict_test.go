// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conflict

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-io/capstan/internal/kube/selfconflict"
)

func TestConflictsAreRetriedAndNotToldOf(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "a", errors.New("it has changed"))
	other := errors.New("something else")
	held := &selfconflict.HeldError{After: time.Minute}
	cases := map[string]struct {
		reason string
		err    error
		want   time.Duration // 0 if it is told of
	}{
		"a write that is held back":     {reason: "the transport says when it passes", err: fmt.Errorf("writing a: %w", &url.Error{Op: "Patch", Err: held}), want: time.Minute},
		"held back, and a conflict":     {reason: "both are looked at again, when both may be written", err: errors.Join(conflict, held), want: time.Minute},
		"held back, and a failure":      {reason: "the failure has to be told of", err: errors.Join(held, other)},
		"no error":                      {reason: "there is nothing to be quiet about"},
		"a conflict":                    {reason: "the object was read too early", err: conflict, want: Retry},
		"a conflict with its story":     {reason: "callers say what they were doing", err: fmt.Errorf("writing a: %w", conflict), want: Retry},
		"two conflicts":                 {reason: "both are looked at again", err: errors.Join(conflict, fmt.Errorf("b: %w", conflict)), want: Retry},
		"a conflict and something else": {reason: "the other one has to be told of", err: errors.Join(conflict, other)},
		"something else":                {reason: "it is a failure", err: fmt.Errorf("writing a: %w", other)},
		"an object that exists":         {reason: "it is a conflict of names, which looking again does not mend", err: apierrors.NewAlreadyExists(schema.GroupResource{}, "a")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			passed := ctrl.Result{RequeueAfter: time.Hour}
			got, err := RequeueConflicts(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return passed, tc.err })).
				Reconcile(t.Context(), ctrl.Request{})
			want, wantErr := passed, tc.err
			if tc.want > 0 {
				want, wantErr = ctrl.Result{RequeueAfter: tc.want}, nil
			}
			if got != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: got %+v, %v", tc.reason, got, err)
			}
		})
	}
}

func TestWhatIsGivenUpAtTheEndIsNotToldOf(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	given := fmt.Errorf("creating a: %w", context.Canceled)
	r := RequeueConflicts(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, given }))
	if _, err := r.Reconcile(ctx, ctrl.Request{}); !errors.Is(err, given) {
		t.Errorf("the process goes on: got %v, want %v", err, given)
	}
	cancel()
	if _, err := r.Reconcile(ctx, ctrl.Request{}); err != nil {
		t.Errorf("the process ends: got %v", err)
	}
	given = errors.New("something else")
	if _, err := r.Reconcile(ctx, ctrl.Request{}); !errors.Is(err, given) {
		t.Errorf("it failed before: got %v, want %v", err, given)
	}
}
