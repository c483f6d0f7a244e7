// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"testing"
	"time"
)

// run has definitions change at some times, and returns when the APIs are looked at in an
// hour; all times are since the first look.
func run(changes func(second int) bool) []time.Duration {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := discoverySchedule{every: time.Minute}
	var looks []time.Duration
	for second := range 3600 {
		now := start.Add(time.Duration(second) * time.Second)
		if changes(second) {
			p.scheduleAfterChange(now)
		}
		if !now.Before(p.nextDiscovery()) {
			p.scheduleNextDiscovery(now, false)
			looks = append(looks, now.Sub(start))
		}
	}
	return looks
}

func TestANewDefinitionIsLookedForAtOnce(t *testing.T) {
	quiet := run(func(int) bool { return false })
	if len(quiet) != 60 {
		t.Errorf("there are %d looks in a quiet hour, want 60: %v", len(quiet), quiet)
	}
	for _, at := range []int{90, 1800, 1859} {
		var soon []time.Duration
		for _, look := range run(func(second int) bool { return second == at }) {
			if since := look - time.Duration(at)*time.Second; since > 0 && since < 10*time.Second {
				soon = append(soon, since)
			}
		}
		if len(soon) != 2 || soon[0] != definitionSettle || soon[1] != definitionSettle+discoverAgain {
			t.Errorf("a definition at second %d: looks after %v", at, soon)
		}
	}
}

// TestFlappingDefinitionsAreFollowedAtAPace has them change without end, then rest, and change
// once more.
func TestFlappingDefinitionsAreFollowedAtAPace(t *testing.T) {
	looks := run(func(second int) bool { return second > 10 && second < 2400 || second == 3000 })
	flapping, after := 0, time.Duration(0)
	for _, look := range looks {
		if look < 2400*time.Second {
			flapping++
		}
		if look > 3000*time.Second && after == 0 {
			after = look - 3000*time.Second
		}
	}
	if most := int(2400*time.Second/promptPause) + 1; flapping > most {
		t.Errorf("there are %d looks in 40 minutes, want %d at most", flapping, most)
	}
	if after != definitionSettle {
		t.Errorf("after it was quiet, a definition is looked for after %s", after)
	}
}
