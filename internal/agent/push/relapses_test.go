// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"testing"
	"time"
)

// TestConnectionsAreSpaced has a cluster that is lost as soon as it is connected, and then one
// that is lost once in a while.
func TestConnectionsAreSpaced(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var r reconnectBackoff
	if wait := r.nextConnect().Sub(now); wait > 0 {
		t.Errorf("the first connection waits %s", wait)
	}
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		r.countConnection(now)
		next := r.nextConnect()
		if got, want := next.Sub(now), time.Duration(seconds)*time.Second; got != want {
			t.Errorf("the next connection waits %s, want %s", got, want)
		}
		now = next
	}
	for range 3 {
		now = now.Add(steady)
		r.countConnection(now)
		if got := r.nextConnect().Sub(now); got != reconnectMin {
			t.Errorf("a cluster that was well for a while waits %s, want %s", got, reconnectMin)
		}
	}
}
