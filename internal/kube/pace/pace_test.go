// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"fmt"
	"testing"
	"time"
)

// TestWhoWritesWithoutEndHasItsPace has an owner write whatever it may for an hour, and another one
// write once.
func TestWhoWritesWithoutEndHasItsPace(t *testing.T) {
	t.Parallel()
	const atOnce, inASecond, together, hour = 100, 10, 30, 3600
	p := NewWriteThrottle(atOnce, inASecond)
	begin := time.Unix(1000, 0)
	written := 0
	for now := begin; now.Before(begin.Add(hour * time.Second)); {
		wait := p.Take("busy", together, now)
		if wait == 0 {
			written += together
		}
		now = now.Add(wait)
	}
	if most := atOnce + inASecond*hour + together; written > most || written < most*9/10 {
		t.Errorf("%d writes in an hour, want at most %d", written, most)
	}
	p.Take("busy", atOnce, begin.Add(hour*time.Second))
	if wait := p.Take("busy", 0, begin.Add(hour*time.Second)); wait != 0 {
		t.Errorf("who has nothing to write waits for %s", wait)
	}
	if wait := p.Take("quiet", 10*atOnce, begin.Add(hour*time.Second)); wait != 0 {
		t.Errorf("who has written nothing waits for %s", wait)
	}
}

func TestWhoOwesNothingIsForgotten(t *testing.T) {
	t.Parallel()
	p := NewWriteThrottle(100, 10)
	now := time.Unix(1000, 0)
	for i := range 10_000 {
		now = now.Add(time.Second)
		p.Take(fmt.Sprint(i), 10, now)
	}
	if len(p.of) > 2*sweepMin {
		t.Errorf("%d are remembered", len(p.of))
	}
}
