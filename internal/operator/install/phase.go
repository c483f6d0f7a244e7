// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Phase is one step of a walk. It changes the reconciled object in memory only.
type Phase[P any] struct {
	// Name is for messages.
	Name string
	// Reason is that of the condition which tells of the phase, if it fails or
	// waits without a reason of its own.
	Reason string
	Run    func(context.Context, P) error
}

// WaitError ends a walk that cannot go on yet, which is not a failure.
type WaitError struct {
	// Reason of the condition; empty is that of the phase.
	Reason string
	// Message says what is waited for; empty leaves the status as it is.
	Message string
	// After is when to look again, if no watch tells earlier.
	After time.Duration
}

func (e WaitError) Error() string { return "waiting: " + e.Message }

// MistakeError ends a walk that is of no use until the user has changed
// something. It is not retried.
type MistakeError struct {
	// Reason of the condition; empty is that of the phase.
	Reason  string
	Message string
}

func (e MistakeError) Error() string { return e.Message }

// UnreachableError ends a walk whose Target cannot be worked on. It is tried
// again at intervals, not more and more seldom.
type UnreachableError struct {
	// Reason of the condition; empty is that of the phase.
	Reason  string
	Message string
	After   time.Duration
}

func (e UnreachableError) Error() string { return e.Message }

// PassResult says how a walk ended.
type PassResult int

// Results of a walk.
const (
	// Done: all phases were run.
	Done PassResult = iota
	// Waiting: see WaitError.
	Waiting
	// Mistake: see MistakeError.
	Mistake
	// Unreachable: see UnreachableError.
	Unreachable
	// Failed: a phase returned another error.
	Failed
	// Outdated: someone else changed an object at the same time, so the walk begins
	// anew with what it is now.
	Outdated
)

// PassOutcome is how a walk ended, and with which phase unless it is Done.
type PassOutcome struct {
	Result PassResult
	Phase  string
	// Reason and Message are for the condition that tells of it. The message is
	// empty if the condition is to stay as it is.
	Reason, Message string
	// After is when to look again; 0 leaves that to the caller.
	After time.Duration
	// Err is the error of the phase, except that it is nil of a walk that waits.
	Err error
}

// GenerationObserved reports whether the operator did with the generation all that it can: the
// rest is up to others, who change the object or the operator's role.
func (o PassOutcome) GenerationObserved() bool {
	return o.Result == Done || o.Result == Mistake || o.Result == Failed && apierrors.IsForbidden(o.Err)
}

// RunPhases goes through the phases until one ends the walk.
func RunPhases[P any](ctx context.Context, phases []Phase[P], walk P) PassOutcome {
	for _, phase := range phases {
		if err := phase.Run(ctx, walk); err != nil {
			outcome := classifyPhaseError(err)
			outcome.Phase = phase.Name
			if outcome.Reason == "" {
				outcome.Reason = phase.Reason
			}
			return outcome
		}
	}
	return PassOutcome{}
}

func classifyPhaseError(err error) PassOutcome {
	var wait WaitError
	var mistake MistakeError
	var unreachable UnreachableError
	switch {
	case errors.As(err, &wait):
		return PassOutcome{Result: Waiting, Reason: wait.Reason, Message: wait.Message, After: wait.After}
	case errors.As(err, &mistake):
		return PassOutcome{Result: Mistake, Reason: mistake.Reason, Message: mistake.Message, Err: err}
	case errors.As(err, &unreachable):
		return PassOutcome{Result: Unreachable, Reason: unreachable.Reason, Message: unreachable.Message, After: unreachable.After, Err: err}
	case isConflictOnly(err):
		return PassOutcome{Result: Outdated, Err: err}
	default:
		return PassOutcome{Result: Failed, Message: err.Error(), Err: err}
	}
}

// isConflictOnly reports whether an error is about optimistic locks and nothing else.
func isConflictOnly(err error) bool {
	switch wrapped := err.(type) { //nolint:errorlint // the parts of a joined error are looked at one by one
	case nil:
		return false
	case interface{ Unwrap() []error }:
		all := wrapped.Unwrap()
		for _, one := range all {
			if !isConflictOnly(one) {
				return false
			}
		}
		return len(all) > 0
	case interface{ Unwrap() error }:
		return apierrors.IsConflict(err) && isConflictOnly(wrapped.Unwrap())
	default:
		return apierrors.IsConflict(err)
	}
}

// namedError is the error of a phase with the name of the phase and of its object.
func (o PassOutcome) namedError(kind, name string) error {
	if o.Err == nil {
		return nil
	}
	return fmt.Errorf("%s of %s %q: %w", o.Phase, kind, name, o.Err)
}
