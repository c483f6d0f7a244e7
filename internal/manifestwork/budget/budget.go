// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// ValuesMax is the number of values that the JSONPaths of one work may visit,
	// for all of its objects together. A path such as .status.phase visits three.
	ValuesMax = 2_000_000
	// JQTimeMax is how long the jq expressions of one work may take, for all of its
	// manifests together.
	JQTimeMax = 5 * time.Second
	// CELCostMax is what the CEL expressions of one work may cost, for all of its
	// objects together, in the cost units of CEL.
	CELCostMax = 20_000_000
)

// Budget is what is left for one evaluation of one work. It may be used by
// several goroutines. There is one for each evaluation: nothing is given back.
type Budget struct {
	clock  clock.PassiveClock
	values atomic.Int64
	cost   atomic.Int64
	// spend takes time of the owner of the work, and says what is left of that; nil without one.
	spend func(time.Duration) (left time.Duration)

	mu sync.Mutex // held while a jq expression is evaluated
	jq time.Duration
}

// NewBudget returns a whole budget. The clock measures what jq takes.
func NewBudget(c clock.PassiveClock) *Budget {
	b := &Budget{clock: c, jq: JQTimeMax}
	b.values.Store(ValuesMax)
	b.cost.Store(CELCostMax)
	return b
}

// errJQ is the end of the time of jq.
var errJQ = fmt.Errorf("the jq expressions of this work take longer than %s together, the limit; use fewer or narrower ones", JQTimeMax)

// EvaluateJQ runs an evaluation of a jq expression. Its context ends after the given
// time, or when the budget is used up, whichever is sooner; jq has no other
// measure of work than time. Evaluations of one work are run one after another,
// so that none pays for the time that others take.
func (b *Budget) EvaluateJQ(ctx context.Context, most time.Duration, evaluate func(context.Context) error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.jq <= 0:
		return errJQ
	case b.IsOwnerSpent():
		return ErrOwner
	}
	limited, cancel := context.WithTimeout(ctx, min(most, b.jq))
	defer cancel()
	start := b.clock.Now()
	err := evaluate(limited)
	took := b.clock.Since(start)
	b.jq -= took
	b.spendTime(took)
	switch {
	case err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded):
		return err
	case b.jq <= 0:
		return errJQ
	}
	return fmt.Errorf("it takes longer than %s", most)
}

// IsOwnerSpent reports whether the owner of the work has no time left: the next evaluation fails with ErrOwner.
func (b *Budget) IsOwnerSpent() bool { return b.spend != nil && b.spend(0) <= 0 }

// spendTime takes time of the owner of the work, if there is one.
func (b *Budget) spendTime(took time.Duration) {
	if b.spend != nil {
		b.spend(took)
	}
}

// CELCost returns what CEL expressions may still cost.
func (b *Budget) CELCost() uint64 { return uint64(max(0, b.cost.Load())) }

// SpendCEL takes what a CEL expression cost.
func (b *Budget) SpendCEL(units uint64) {
	spent := int64(min(units, CELCostMax))
	b.cost.Add(-spent)
	b.spendTime(time.Duration(spent) * time.Second / celPerSecond)
}

// SpendValues takes a number of values that JSONPaths visit, unless there are not so
// many left.
func (b *Budget) SpendValues(values int) error {
	if b.IsOwnerSpent() {
		return ErrOwner
	}
	b.spendTime(time.Duration(values) * time.Second / valuesPerSecond)
	if b.values.Add(-int64(values)) < 0 {
		return fmt.Errorf("the paths of this work visit more than %d values, for all of its objects together; use narrower ones", ValuesMax)
	}
	return nil
}

// NewObjectMeter returns what the JSONPaths for one object may visit.
func (b *Budget) NewObjectMeter(valuesMax int) *ValueMeter {
	return &ValueMeter{most: valuesMax, left: valuesMax, of: b}
}

// ValueMeter is what is left for the JSONPaths of one object. Only one goroutine may
// use it.
type ValueMeter struct {
	most, left int
	of         *Budget
}

// TakeValues takes a number of values, unless there are not so many left.
func (m *ValueMeter) TakeValues(values int) error {
	if m.left -= values; m.left < 0 {
		return fmt.Errorf("the paths for this object visit more than %d values; use narrower ones", m.most)
	}
	return m.of.SpendValues(values)
}
