// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import "testing"

func TestPostponedWorksComeBackAFewAtATime(t *testing.T) {
	var postponed Postponed
	postponed.Done("nobody")
	if work, ok := postponed.Take(); ok {
		t.Fatalf("%s came back, and none was postponed", work)
	}
	for _, work := range []string{"a", "b", "c", "d", "d"} {
		postponed.Add(work)
	}
	back := map[string]bool{}
	take := func() bool {
		work, ok := postponed.Take()
		back[work] = ok
		return ok
	}
	if !take() || !take() || take() {
		t.Fatalf("back are %v, want two of them", back)
	}
	for work := range back {
		postponed.Done(work)
	}
	if !take() || !take() || take() {
		t.Fatalf("back are %v, want all four", back)
	}
	for _, work := range []string{"a", "b", "c", "d"} {
		postponed.Done(work)
		if !back[work] {
			t.Errorf("%s did not come back", work)
		}
	}
	if take() {
		t.Error("a work came back twice")
	}
}
