// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"time"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// dampFree is how many corrections in a row are made at once.
	dampFree = 5
	// dampQuiet is the time without a correction after which counting starts anew.
	dampQuiet = time.Minute
	// dampWaitMin and dampWaitMax bound the time between later corrections, which doubles.
	dampWaitMin = time.Second
	dampWaitMax = 5 * time.Minute
)

// CorrectionDamper slows the corrections of an object down if someone else keeps
// changing it, so that the two do not write against each other for ever. The
// zero value is an object that was never corrected.
type CorrectionDamper struct {
	count int
	last  time.Time
}

// AfterCorrection returns the damper after a correction.
func (d CorrectionDamper) AfterCorrection(now time.Time) CorrectionDamper {
	if d.IsQuiet(now) {
		d.count = 0
	}
	return CorrectionDamper{count: d.count + 1, last: now}
}

// CorrectionDelay returns how long the next correction has to wait.
func (d CorrectionDamper) CorrectionDelay(now time.Time) time.Duration {
	return max(0, d.last.Add(d.backoffPause()).Sub(now))
}

// IsQuiet reports whether the object was not corrected for so long that a new
// damper would do as well.
func (d CorrectionDamper) IsQuiet(now time.Time) bool {
	return d.count == 0 || now.Sub(d.last) > dampQuiet+d.backoffPause()
}

// IsDamped reports whether corrections have to wait.
func (d CorrectionDamper) IsDamped() bool { return d.backoffPause() > 0 }

func (d CorrectionDamper) backoffPause() time.Duration {
	if d.count < dampFree {
		return 0
	}
	return backoff.DelayAfter(d.count-dampFree+1, backoff.ExponentialBetween(dampWaitMin, dampWaitMax))
}
