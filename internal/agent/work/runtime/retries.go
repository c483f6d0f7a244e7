// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"time"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// RetryMin is the time after the first pass that fails; it doubles.
	RetryMin = 50 * time.Millisecond
	// RetryMax is the most that it becomes.
	RetryMax = 30 * time.Second

	// quietTime is how long a work may lack something that may come soon before
	// its status says so.
	quietTime = time.Second
	// quietTimeOwn is the same for what the work itself brings: a definition
	// takes a while to be established.
	quietTimeOwn = 10 * time.Second
)

// RetryBackoff space the passes over a work that lacks something that may come
// soon. The zero value is that of a work that lacks nothing.
type RetryBackoff struct {
	// failures is how many passes in a row left something to try again soon.
	failures int
	// since is when the first of these passes was.
	since time.Time
}

// NextRetry returns when to try again. Own says that the work itself brings what it
// lacks.
func (r *RetryBackoff) NextRetry(now time.Time, own bool) time.Duration {
	if r.since.IsZero() {
		r.since = now
	}
	r.failures++
	again := backoff.DelayAfter(r.failures, backoff.ExponentialBetween(RetryMin, RetryMax))
	if quiet := r.QuietPeriod(now, own); quiet > 0 {
		again = min(again, quiet)
	}
	return again
}

// ResetFailures makes the next try come soon: something happened.
func (r *RetryBackoff) ResetFailures() { r.failures = 0 }

// ClearRetries notes that nothing is lacking any more.
func (r *RetryBackoff) ClearRetries() { *r = RetryBackoff{} }

// QuietPeriod is how long the status may go on to say what it says although
// something that may come soon is not there; zero if it may not.
func (r *RetryBackoff) QuietPeriod(now time.Time, own bool) time.Duration {
	if r.since.IsZero() {
		return 0
	}
	limit := quietTime
	if own {
		limit = quietTimeOwn
	}
	return max(0, limit-now.Sub(r.since))
}
