// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"slices"
	"testing"
	"time"
)

// reports has definitions come at some times to a busy cluster, of which there is always
// something else to report, too. A definition is served a while after it has come. It returns
// when the hub was told of each definition, zero if it was not in time, and when it was written
// to; all times are since the first look.
func reports(until, serving time.Duration, come ...time.Duration) (told, writes []time.Duration) {
	const tick = 100 * time.Millisecond
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p, s := discoverySchedule{every: time.Minute}, newReportThrottle()
	told = make([]time.Duration, len(come))
	found, known := 0, 0
	for at := time.Duration(0); at < until; at += tick {
		now := start.Add(at)
		if slices.Contains(come, at-settle) {
			p.scheduleAfterChange(now)
		}
		if !now.Before(p.nextDiscovery()) {
			p.scheduleNextDiscovery(now, false)
			for found < len(come) && come[found]+serving <= at {
				found++
			}
		}
		if apis := found > known; !now.Before(s.nextWrite(apis)) {
			s.countWrite(now, apis, reportRate)
			writes = append(writes, at)
			for ; known < found; known++ {
				told[known] = at
			}
		}
	}
	return told, writes
}

// inAMinute returns the most writes of a minute.
func inAMinute(writes []time.Duration) (most int) {
	for i := range writes {
		n := 0
		for n < len(writes)-i && writes[i+n] < writes[i]+time.Minute {
			n++
		}
		most = max(most, n)
	}
	return most
}

const (
	// toldWithin is how long the hub may have to wait for a new kind.
	toldWithin = 10 * time.Second
	// writesMax is how often it may be written to in a minute.
	writesMax = 12
)

// TestANewKindIsTold has two definitions come, one soon after the other, at any time since the
// last report.
func TestANewKindIsTold(t *testing.T) {
	for _, serving := range []time.Duration{0, 3 * time.Second} {
		for phase := time.Duration(0); phase < writePause; phase += 500 * time.Millisecond {
			for apart := time.Duration(0); apart <= 6*time.Second; apart += 500 * time.Millisecond {
				first := time.Minute + phase
				come := []time.Duration{first, first + apart}
				told, _ := reports(2*time.Minute, serving, come...)
				for i := range come {
					if took := told[i] - come[i]; took < 0 || took > toldWithin {
						t.Errorf("of definitions %s apart, at %s, served after %s: number %d is told after %s", apart, first, serving, i+1, took)
					}
				}
			}
		}
	}
}

// TestAStreamOfDefinitionsIsToldAtAPace has a definition come every second.
func TestAStreamOfDefinitionsIsToldAtAPace(t *testing.T) {
	const until, last = 11 * time.Minute, 10 * time.Minute
	var come []time.Duration
	for at := time.Duration(0); at < last; at += time.Second {
		come = append(come, at)
	}
	told, writes := reports(until, 0, come...)
	if most := inAMinute(writes); most > writesMax {
		t.Errorf("the hub is written to %d times in a minute, want %d at most", most, writesMax)
	}
	for i := range come {
		if took := told[i] - come[i]; took < 0 || took > toldWithin {
			t.Errorf("the definition at %s is told after %s", come[i], took)
		}
	}
}

// TestReportsAreSpacedByTheirBytes has a report due all the time, of what a cluster has that
// serves few kinds, or as many as it may.
func TestReportsAreSpacedByTheirBytes(t *testing.T) {
	const until, span = 30 * time.Minute, 10 * time.Minute
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	writes := func(bytes int) (all []time.Duration) {
		s := newReportThrottle()
		for at := time.Duration(0); at < until; at += 100 * time.Millisecond {
			if now := start.Add(at); !now.Before(s.nextWrite(true)) {
				s.countWrite(now, true, bytes)
				all = append(all, at)
			}
		}
		return all
	}
	for _, bytes := range []int{200 << 10, 1 << 20, 3 << 20, 2 * reportBurst} {
		all, most := writes(bytes), 0
		for i := range all {
			n := 0
			for n < len(all)-i && all[i+n] < all[i]+span {
				n++
			}
			most = max(most, n*min(bytes, reportBurst))
		}
		if limit := reportBurst + int(span.Seconds())*reportRate + bytes; most > limit {
			t.Errorf("reports of %d bytes: %d are written in ten minutes, want %d at most", bytes, most, limit)
		}
		if last := all[len(all)-1]; last < until-span {
			t.Errorf("reports of %d bytes: none is written after %s", bytes, last)
		}
	}
	if all, want := writes(int(promptPause.Seconds())*reportRate), int(until/promptPause); len(all) != want {
		t.Errorf("of small reports, %d are written, want %d", len(all), want)
	}
}
