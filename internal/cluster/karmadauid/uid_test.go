// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package karmadauid

import "testing"

func TestTheUIDNeverChanges(t *testing.T) {
	const stored = "5e7b1d3c-0c5a-4a7e-9a65-1d1c5f3c2b1a"
	const want = "8e783a97-6eca-59e1-a1d3-2dc22b9d8ccc"
	if got := ClusterUID(stored); got != want {
		t.Errorf("UID is %s, want %s: clients make Clusters owners, and garbage collection deletes what owners with other UIDs have", got, want)
	}
	if got := WorkUID(stored); got == want || got == stored || got != WorkUID(stored) {
		t.Errorf("the UID of a Work is %s: want one of its own, and the same each time", got)
	}
}
