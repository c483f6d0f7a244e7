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

// Damper slows the corrections of an object down if someone else keeps
// changing it, so that the two do not write against each other for ever. The
// zero value is an object that was never corrected.
type Damper struct {
	count int
	last  time.Time
}

// Corrected returns the damper after a correction.
func (d Damper) Corrected(now time.Time) Damper {
	if d.Quiet(now) {
		d.count = 0
	}
	return Damper{count: d.count + 1, last: now}
}

// Wait returns how long the next correction has to wait.
func (d Damper) Wait(now time.Time) time.Duration {
	return max(0, d.last.Add(d.pause()).Sub(now))
}

// Quiet tells whether the object was not corrected for so long that a new
// damper would do as well.
func (d Damper) Quiet(now time.Time) bool {
	return d.count == 0 || now.Sub(d.last) > dampQuiet+d.pause()
}

// Damped tells whether corrections have to wait.
func (d Damper) Damped() bool { return d.pause() > 0 }

func (d Damper) pause() time.Duration {
	if d.count < dampFree {
		return 0
	}
	return backoff.After(d.count-dampFree+1, backoff.Between(dampWaitMin, dampWaitMax))
}
