// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"testing"
	"time"
)

// reports has a report of so many bytes due all the time, and returns when it is written. turn is
// after how long the cluster is available or is not any more, again and again; 0 is never.
func reports(until time.Duration, bytes int, turn time.Duration) (writes []time.Duration) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s, turned := newReportThrottle(), time.Duration(0)
	for at := time.Duration(0); at < until; at += 50 * time.Millisecond {
		now, turns := start.Add(at), turn > 0 && at-turned >= turn
		if s.waitBeforeWrite(now, turns) > 0 {
			continue
		}
		s.countWrite(now, turns, bytes)
		writes = append(writes, at)
		if turns {
			turned = at
		}
	}
	return writes
}

// TestAStreamOfClaimsIsSpaced has claims change without end, whose ManagedCluster is small or as
// large as the hub takes it.
func TestAStreamOfClaimsIsSpaced(t *testing.T) {
	const span = 10 * time.Minute
	for _, bytes := range []int{2 << 10, 64 << 10, 512 << 10, 1 << 20} {
		writes := reports(span, bytes, 0)
		if most := writesAtOnce + int(span/writeEvery); len(writes) > most {
			t.Errorf("of %d bytes: %d reports in ten minutes, want %d at most", bytes, len(writes), most)
		}
		if sum, most := len(writes)*bytes, bytesAtOnce+int(span.Seconds())*bytesRate+bytes; sum > most {
			t.Errorf("of %d bytes: %d bytes in ten minutes, want %d at most", bytes, sum, most)
		}
		if last := writes[len(writes)-1]; last < span-2*time.Minute {
			t.Errorf("of %d bytes: none is written after %s", bytes, last)
		}
	}
}

// TestAvailabilityIsToldAtOnce has a cluster that turns while its claims change without end.
func TestAvailabilityIsToldAtOnce(t *testing.T) {
	const span = 10 * time.Minute
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newReportThrottle()
	for range 10 * writesAtOnce {
		s.countWrite(start, false, 256<<10)
	}
	if s.waitBeforeWrite(start, false) <= 0 {
		t.Fatal("a stream of claims does not wait")
	}
	for range turnsAtOnce {
		if wait := s.waitBeforeWrite(start, true); wait > 0 {
			t.Fatalf("that a cluster is not available any more waits %s", wait)
		}
		s.countWrite(start, true, 256<<10)
	}
	most := writesAtOnce + int(span/writeEvery) + turnsAtOnce + int(span/turnEvery)
	if writes := reports(span, 2<<10, time.Millisecond); len(writes) > most {
		t.Errorf("%d reports in ten minutes of a cluster that turns without end, want %d at most", len(writes), most)
	}
}

// TestASingleChangeIsNotLate has a claim change once in a while.
func TestASingleChangeIsNotLate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newReportThrottle()
	for range 1000 {
		if wait := s.waitBeforeWrite(now, false); wait > 0 {
			t.Fatalf("a change waits %s", wait)
		}
		s.countWrite(now, false, 100<<10)
		now = now.Add(writeEvery)
	}
}
