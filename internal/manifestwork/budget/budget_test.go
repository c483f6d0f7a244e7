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

// TestWorksOfAnOwnerShareATime has works of one owner in many clusters, each of which stays within its own budget.
func TestWorksOfAnOwnerShareATime(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	times := budget.NewOwnerTimes(now)
	slow := func(context.Context) error {
		now.SetTime(now.Now().Add(time.Second))
		return nil
	}
	nothing := func(context.Context) error { return nil }
	uses := map[string]func(*budget.Budget) error{
		"jq":       func(left *budget.Budget) error { return left.EvaluateJQ(t.Context(), time.Minute, slow) },
		"CEL":      func(left *budget.Budget) error { left.SpendCEL(budget.CELCostMax / 2); return nil },
		"JSONPath": func(left *budget.Budget) error { return left.SpendValues(budget.ValuesMax / 2) },
	}
	for by, use := range uses {
		works := 0
		for ; !times.NewBudget("owner by "+by).IsOwnerSpent() && works < 100_000; works++ {
			if err := use(times.NewBudget("owner by " + by)); err != nil {
				t.Fatalf("%s: work %d: %v", by, works, err)
			}
		}
		if works < 50 || works == 100_000 {
			t.Errorf("%s: an owner has enough for %d works", by, works)
		}
		for name, spent := range map[string]bool{"owner by " + by: true, "another owner": false, "": false} {
			left := times.NewBudget(name)
			for what, err := range map[string]error{"jq": left.EvaluateJQ(t.Context(), time.Minute, nothing), "JSONPath": left.SpendValues(1)} {
				if errors.Is(err, budget.ErrOwner) != spent || left.IsOwnerSpent() != spent {
					t.Errorf("after %s, %q evaluates %s: %v", by, name, what, err)
				}
			}
		}
		now.SetTime(now.Now().Add(time.Hour))
		if times.NewBudget("owner by " + by).IsOwnerSpent() {
			t.Errorf("%s: nothing comes back", by)
		}
	}
}

// TestAnOrdinaryFleetHasTime has a work of an owner in each of a thousand clusters, at once.
func TestAnOrdinaryFleetHasTime(t *testing.T) {
	t.Parallel()
	now := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	times := budget.NewOwnerTimes(now)
	for range 1000 {
		left := times.NewBudget("shop")
		err := left.EvaluateJQ(t.Context(), time.Second, func(context.Context) error { now.SetTime(now.Now().Add(20 * time.Millisecond)); return nil })
		left.SpendCEL(50_000)
		if err = errors.Join(err, left.SpendValues(10_000)); err != nil || left.IsOwnerSpent() {
			t.Fatalf("it has no time left: %v", err)
		}
	}
}
