// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package budget_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/manifestwork/budget"
)

func TestPathsOfAllObjectsShareABudget(t *testing.T) {
	t.Parallel()
	left := budget.NewBudget(clock.RealClock{})
	one := left.NewObjectMeter(100)
	if err := one.TakeValues(100); err != nil {
		t.Fatalf("want an object to have its own 100 values, got %v", err)
	}
	if err := one.TakeValues(1); err == nil || !strings.Contains(err.Error(), "for this object visit more than 100 values") {
		t.Errorf("want the object's limit, got %v", err)
	}
	const perObject = 1_000_000
	objects := 0
	var err error
	for err == nil && objects <= budget.ValuesMax {
		objects++
		err = left.NewObjectMeter(perObject).TakeValues(perObject)
	}
	if objects != budget.ValuesMax/perObject {
		t.Errorf("want the object number %d to be too many, it is number %d", budget.ValuesMax/perObject, objects)
	}
	if err == nil || !strings.Contains(err.Error(), "of this work visit more than") {
		t.Errorf("want the limit of the work, got %v", err)
	}
	if err := left.SpendValues(1); err == nil {
		t.Error("there are values left")
	}
}

func TestJQOfAllManifestsSharesATime(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	left := budget.NewBudget(now)
	slow := func(context.Context) error {
		now.SetTime(now.Now().Add(time.Second))
		return nil
	}
	for i := range int(budget.JQTimeMax / time.Second) {
		if err := left.EvaluateJQ(t.Context(), time.Minute, slow); err != nil {
			t.Fatalf("evaluation %d: %v", i, err)
		}
	}
	ran := false
	err := left.EvaluateJQ(t.Context(), time.Minute, func(context.Context) error { ran = true; return nil })
	if err == nil || !strings.Contains(err.Error(), "of this work take longer than 5s together") || ran {
		t.Errorf("want nothing to be evaluated any more, got %v", err)
	}
}

func TestJQEndsByItsOwnLimitOrThatOfTheCaller(t *testing.T) {
	t.Parallel()
	left := budget.NewBudget(clock.RealClock{})
	endless := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if err := left.EvaluateJQ(t.Context(), time.Millisecond, endless); err == nil || err.Error() != "it takes longer than 1ms" {
		t.Errorf("want the limit of the evaluation, got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := left.EvaluateJQ(ctx, time.Minute, endless); !errors.Is(err, context.Canceled) {
		t.Errorf("want what ended the caller, got %v", err)
	}
}

func TestCELOfAllObjectsSharesACost(t *testing.T) {
	t.Parallel()
	left := budget.NewBudget(clock.RealClock{})
	left.SpendCEL(budget.CELCostMax - 1)
	if got := left.CELCost(); got != 1 {
		t.Errorf("want one unit to be left, got %d", got)
	}
	left.SpendCEL(1 << 63)
	if got := left.CELCost(); got != 0 {
		t.Errorf("want nothing to be left, got %d", got)
	}
}
