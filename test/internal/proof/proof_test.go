// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestARowNamesTestsAndTheirCases(t *testing.T) {
	for text, want := range map[string][]Test{
		"`a/b.TestOne`":                        {{Folder: "a/b", Name: "TestOne"}},
		"`a.TestOne` *first*, `b.TestTwo`":     {{Folder: "a", Name: "TestOne", Case: "first"}, {Folder: "b", Name: "TestTwo"}},
		"All: `a.TestOne` *first*. One: *two*": {{Folder: "a", Name: "TestOne", Case: "first"}, {Folder: "a", Name: "TestOne", Case: "two"}},
		"`notATest` and *nothing before*":      nil,
	} {
		t.Run(text, func(t *testing.T) {
			if diff := cmp.Diff(want, Row{Text: text}.Tests()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRowsAreReadFromAPage(t *testing.T) {
	table := Table{Kind: "Thing"}
	page := "# Thing\n\n| Field | Tests |\n|---|---|\n| `spec.size` | `a.TestSize` (kept; nothing reads it) |\n\n| `Broken` | `a.TestBroken` |\n"
	rows := Parse(page, table)
	if len(rows) != 2 || rows[0].Name() != "Thing spec.size" || rows[1].Name() != "Thing Broken" {
		t.Fatalf("got %+v, want the rows of spec.size and Broken", rows)
	}
	if !(Row{Text: "`a.TestSize` (nothing is estimated by it yet)"}).OnlyWritten() || rows[0].OnlyWritten() {
		t.Error("want a field that is only written to be one whose row says so")
	}
	if rows[0].OfReason() || !rows[0].OnlyKept() || !rows[1].OfReason() || rows[1].OnlyKept() {
		t.Errorf("got %+v, want a field that is only kept, and a reason", rows)
	}
}
