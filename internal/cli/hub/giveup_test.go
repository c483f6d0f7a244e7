// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import "testing"

func TestHurryLeavesAnAgentTheTimeOfOneHeartbeat(t *testing.T) {
	const missed, jitter = 5, 1.1
	for before, want := range map[int32]int32{0: 15, 60: 15, 300: 75, 61: 15, 40: 15, 20: 15, 15: 15, 5: 5, 1: 1} {
		got := hasty(before)
		if got != want {
			t.Errorf("of %d s it makes %d s, want %d s", before, got, want)
		}
		if before == 0 {
			before = leaseSecondsDefault
		}
		if float64(got*missed) <= float64(before)*jitter {
			t.Errorf("an agent that beats every %d s would be given up after %d s", before, got*missed)
		}
	}
}
