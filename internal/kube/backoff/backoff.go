// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backoff

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
)

const (
	// factor is by how much each wait is longer than the one before.
	factor = 2
	// stepsMax is how often a wait can grow: more often than it takes to get from a
	// nanosecond to a century, so that only the cap ends it.
	stepsMax = 64
)

// ExponentialBetween returns a backoff that doubles from the shortest wait to the longest.
// It has no jitter; set that where many clients could come at the same moment.
func ExponentialBetween(shortest, longest time.Duration) wait.Backoff {
	return wait.Backoff{Duration: shortest, Factor: factor, Steps: stepsMax, Cap: longest}
}

// DelayAfter returns how long a backoff waits after so many failures in a row: after
// the first one (or none), its shortest time. It is for callers that remember a
// count rather than a backoff.
func DelayAfter(failures int, b wait.Backoff) time.Duration {
	for range min(failures, stepsMax) - 1 {
		b.Step()
	}
	return b.Step()
}

// SleepContext waits, and reports whether it did so to the end: false is that ctx ended
// before.
func SleepContext(ctx context.Context, clk clock.Clock, d time.Duration) bool {
	timer := clk.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return ctx.Err() == nil
	}
}
