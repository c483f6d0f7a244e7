// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package columns

import "testing"

func TestColumnsAreAsWideAsTheirCharacters(t *testing.T) {
	want := "NAME         READY\n├─ one       yes\n│     └─ x   no\ntwo\n"
	if got := FormatTable([][]string{{"NAME", "READY"}, {"├─ one", "yes"}, {"│     └─ x", "no"}, {"two", ""}}); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestRowsAreLines has a cell of what a cluster says of itself: it makes no row, and no
// column.
func TestRowsAreLines(t *testing.T) {
	rows := [][]string{{"NAME", "READY"}, {"one", "no: it is\n\ttwo\ryes    and    three"}, {"  three", "yes"}}
	if got, want := FormatTable(rows), "NAME      READY\none       no: it is two yes and three\n  three   yes\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got, want := FormatSection(rows), "  NAME     READY\n  one      no: it is two yes and three\n    three  yes\n"; got != want {
		t.Errorf("below a heading, got\n%swant\n%s", got, want)
	}
}
