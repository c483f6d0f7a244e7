// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package growth tests that more work takes longer in proportion, and not by its square.
package growth

import (
	"math"
	"syscall"
	"testing"
	"time"
)

const (
	// attempts is how often each work is done; the fastest counts.
	attempts = 5
	// slack is how many times as long as in proportion it may take: for caches that are too
	// small, and for logarithms.
	slack = 5
)

// InProportion fails the test if times as much work takes far longer than that many times as
// long. Prepare makes the work on that many of something, which is then done once. What counts is
// the time of the processor: others may use the machine, too. So call it from no parallel test.
// Few have to take some 100 microseconds, and times is at least 16, which is told apart from its
// square.
func InProportion(t testing.TB, few, times int, prepare func(many int) (work func())) {
	t.Helper()
	one := fastestRun(t, few, prepare)
	all := fastestRun(t, few*times, prepare)
	if all > time.Duration(slack*times)*one {
		t.Errorf("%d take %v, and %d take %v: %.0f times as long", few, one, few*times, all, float64(all)/float64(one))
	}
}

func fastestRun(t testing.TB, many int, prepare func(many int) func()) time.Duration {
	t.Helper()
	best := time.Duration(math.MaxInt64)
	for range attempts {
		work := prepare(many)
		begun := processorTime(t)
		work()
		best = min(best, processorTime(t)-begun)
	}
	return best
}

// processorTime returns how long this process has had a processor.
func processorTime(t testing.TB) time.Duration {
	t.Helper()
	usage := syscall.Rusage{}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatalf("finding out how long the processor was used: %v", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
