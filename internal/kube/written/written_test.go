// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package written

import (
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func TestVersionsAreComparedByWhenTheyWereWritten(t *testing.T) {
	for reason, test := range map[string]struct {
		version, other string
		after, since   bool
	}{
		"it is later":                   {"10", "9", true, true},
		"it is the same":                {"10", "10", false, true},
		"it is earlier":                 {"9", "10", false, false},
		"it is no number":               {"x", "10", false, false},
		"the other one is no number":    {"10", "x", false, false},
		"there is none":                 {"", "10", false, false},
		"there is no other one":         {"10", "", false, false},
		"there is neither":              {"", "", false, false},
		"it does not fit into a number": {"100000000000000000000", "99999999999999999999", true, true},
	} {
		if after, since := IsAfter(test.version, test.other), IsSince(test.version, test.other); after != test.after || since != test.since {
			t.Errorf("%s: after %t and since %t, want %t and %t", reason, after, since, test.after, test.since)
		}
	}
}

// TestMemoryDoesNotGrowWithWhatIsLongAgo never forgets a write by its key.
func TestMemoryDoesNotGrowWithWhatIsLongAgo(t *testing.T) {
	const many = 1000
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	recent := NewRecentWrites[int, string](clk, BehindMax)
	for round := range 5 {
		for i := range many {
			recent.RecordWrite(round*many+i, "a")
		}
		if kept := len(recent.writes); kept > 2*many {
			t.Fatalf("after %d rounds %d writes are kept, want those of a moment ago", round+1, kept)
		}
		clk.SetTime(clk.Now().Add(BehindMax))
	}
	if _, found := recent.FindWrite(0); found || len(recent.writes) != 0 {
		t.Errorf("%d writes are kept after all of them are long ago, and one was asked for", len(recent.writes))
	}
}

func TestASweepTakesOnlyWhatIsLongAgo(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	recent := NewRecentWrites[string, int](clk, BehindMax)
	recent.RecordWrite("long ago", 1)
	recent.RecordWrite("again", 2)
	clk.SetTime(clk.Now().Add(time.Second))
	recent.RecordWrite("lately", 3)
	recent.RecordWrite("again", 4)
	clk.SetTime(clk.Now().Add(BehindMax - time.Second))
	for key, want := range map[string]int{"long ago": 0, "lately": 3, "again": 4} {
		if value, found := recent.FindWrite(key); value != want || found != (want != 0) {
			t.Errorf("%s: found %d (%t), want %d", key, value, found, want)
		}
	}
	if len(recent.writes) != 2 {
		t.Errorf("%d writes are kept, want the two that are not long ago", len(recent.writes))
	}
}
