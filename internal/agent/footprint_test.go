// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"runtime"
	"testing"
)

func TestMemoryIsGivenBackAfterABurst(t *testing.T) {
	before := heap{allocated: 100 << 20, live: 8 << 20, held: 20 << 20}
	cases := map[string]struct {
		reason string
		now    heap
		want   bool
	}{
		"quiet, and much is left": {now: heap{allocated: before.allocated + 1000, live: 8 << 20, held: 20 << 20}, want: true},
		"still busy": {
			reason: "the runtime collects by itself then", now: heap{allocated: before.allocated + quietBytes, live: 8 << 20, held: 20 << 20},
		},
		"quiet, and little is left": {
			reason: "a collection now and then is not free", now: heap{allocated: before.allocated + 1000, live: 8 << 20, held: 9 << 20},
		},
		"quiet, and little is left of a big heap": {
			reason: "what is left counts in proportion", now: heap{allocated: before.allocated + 1000, live: 80 << 20, held: 85 << 20},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.now.worthCollecting(before); got != tc.want {
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
