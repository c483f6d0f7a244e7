// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package budget

import (
	"errors"
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// ownerBurst is how long the expressions of an owner take at once, of all its works in all clusters, and
	// ownerPerSecond for how much of each second after that.
	ownerBurst     = time.Minute
	ownerPerSecond = 0.5
	// celPerSecond and valuesPerSecond are about how many units of CEL, and values that JSONPaths visit, take a
	// second of a processor.
	celPerSecond    = 10_000_000
	valuesPerSecond = 10_000_000
)

// ErrOwner says that all works of an owner have taken the time that there is for their expressions.
var ErrOwner = errors.New("the expressions in all works of this namespace, in whatever clusters, take too long together; use fewer or narrower ones")

// OwnerTimes are how long the expressions of owners take, who have works in many clusters. Nobody waits for a turn: those of an owner
// who has used up its time fail until there is more, and others have the processors and the workers. It is safe for concurrent use.
type OwnerTimes struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	owners map[string]*ownerTime
}

// ownerTime is what an owner had left at a time.
type ownerTime struct {
	left time.Duration
	at   time.Time
}

// NewOwnerTimes returns the times of a program in which nobody has evaluated anything.
func NewOwnerTimes(clk clock.PassiveClock) *OwnerTimes {
	return &OwnerTimes{clock: clk, owners: map[string]*ownerTime{}}
}

// NewBudget returns a whole budget for a work of an owner, whose works share a time; "" is for a work that shares none.
func (t *OwnerTimes) NewBudget(owner string) *Budget {
	b := NewBudget(t.clock)
	if owner != "" {
		b.spend = func(spent time.Duration) (left time.Duration) { return t.spendTime(owner, spent) }
	}
	return b
}

// spendTime takes some of the time of an owner, which may be more than it has, and returns what is left.
func (t *OwnerTimes) spendTime(owner string, spent time.Duration) (left time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	mine, known := t.owners[owner]
	if !known {
		maps.DeleteFunc(t.owners, func(_ string, other *ownerTime) bool { return other.timeLeft(now) == ownerBurst })
		mine = &ownerTime{left: ownerBurst, at: now}
		t.owners[owner] = mine
	}
	mine.left = mine.timeLeft(now) - spent
	mine.at = now
	return mine.left
}

// timeLeft returns what an owner has left now.
func (of *ownerTime) timeLeft(now time.Time) time.Duration {
	return min(ownerBurst, of.left+time.Duration(ownerPerSecond*float64(now.Sub(of.at))))
}
