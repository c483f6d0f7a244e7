// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import "testing"

func TestPostponedWorksComeBackAFewAtATime(t *testing.T) {
	var postponed PostponedWorks
	postponed.MarkDone("nobody")
	if work, ok := postponed.TakeNext(); ok {
		t.Fatalf("%s came back, and none was postponed", work)
	}
	for _, work := range []string{"a", "b", "c", "d", "d"} {
		postponed.PostponeWork(work)
	}
	back := map[string]bool{}
	// takeAll takes as many as there are to be had now.
	takeAll := func() int {
		for n := 0; ; n++ {
			work, ok := postponed.TakeNext()
			if !ok {
				return n
			}
			back[work] = true
		}
	}
	if n := takeAll(); n != postponedAtOnce {
		t.Fatalf("%d works came back, want %d: %v", n, postponedAtOnce, back)
	}
	for work := range back {
		postponed.MarkDone(work)
	}
	if n := takeAll(); n != postponedAtOnce || len(back) != 2*postponedAtOnce {
		t.Fatalf("%d more works came back, want %d others: %v", n, postponedAtOnce, back)
	}
	for work := range back {
		postponed.MarkDone(work)
	}
	if n := takeAll(); n != 0 {
		t.Errorf("%d works came back twice", n)
	}
}
