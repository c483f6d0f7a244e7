// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package footprint

import (
	"runtime"
	"testing"
)

func TestMemoryIsGivenBackAfterABurst(t *testing.T) {
	before := heap{allocated: 100 << 20, live: 8 << 20, held: 20 << 20}
	cases := map[string]struct {
		reason string
		now    heap
		least  uint64
		want   bool
	}{
		"quiet, and much is left": {now: heap{allocated: before.allocated + 1000, live: 8 << 20, held: 20 << 20}, want: true},
		"still busy": {
			reason: "the runtime collects by itself then", now: heap{allocated: before.allocated + quietBytesMin, live: 8 << 20, held: 20 << 20},
		},
		"quiet for how much it holds": {
			reason: "who holds more is told more while nothing happens", now: heap{allocated: before.allocated + quietBytesMin, live: 80 << 20, held: 120 << 20}, want: true,
		},
		"quiet, and little is left": {
			reason: "a collection now and then is not free", now: heap{allocated: before.allocated + 1000, live: 8 << 20, held: 9 << 20},
		},
		"quiet, and little is left of a big heap": {
			reason: "what is left counts in proportion", now: heap{allocated: before.allocated + 1000, live: 80 << 20, held: 85 << 20},
		},
		"quiet, and the last collection could not give it back": {
			reason: "an idle process would collect every ten seconds for nothing",
			now:    heap{allocated: before.allocated + 1000, live: 8 << 20, held: 12 << 20}, least: 11 << 20,
		},
		"quiet, and more came since the last collection": {
			now: heap{allocated: before.allocated + 1000, live: 8 << 20, held: 14 << 20}, least: 11 << 20, want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.now.worthCollecting(before, tc.least); got != tc.want {
				t.Errorf("worthCollecting: got %t, want %t. %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestTheRuntimeHasTheCounters(t *testing.T) {
	runtime.GC()
	h := readHeap()
	if h.allocated == 0 || h.live == 0 || h.held < h.live {
		t.Errorf("the heap is %+v", h)
	}
}
