// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"strings"
	"testing"
)

// TestNoRowOfATableStandsTwice looks for what is left when two changes of one row are merged: rows
// of a table that are the same but for their last cell.
func TestNoRowOfATableStandsTwice(t *testing.T) {
	looked := 0
	for _, page := range pages(t) {
		found, problems := repeatedRows(page)
		looked += found
		for _, problem := range problems {
			t.Error(problem)
		}
	}
	atLeast(t, 1000, looked)
}

func TestRepeatedRowsAreFound(t *testing.T) {
	page := document{path: "a.md", text: "| a | b | c |\n|---|---|---|\n| what | bound | one |\n| what | other | two |\n| what | bound | new |\n\ntext\n\n| what | bound | elsewhere |\n"}
	rows, problems := repeatedRows(page)
	if rows != 5 || len(problems) != 1 || !strings.Contains(problems[0], "a.md:5") || !strings.Contains(problems[0], "line 3") {
		t.Errorf("of %d rows: %q, want the fifth line, which is that of line 3", rows, problems)
	}
}

// repeatedRows counts the rows of a page's tables of three columns and more, and says which are
// rows above but for their last cell.
func repeatedRows(page document) (rows int, problems []string) {
	above := map[string]int{} // the line of each row of this table
	for i, line := range strings.Split(page.text, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if !strings.HasPrefix(line, "|") {
			above = map[string]int{}
			continue
		}
		if len(cells) < 3 {
			continue
		}
		rows++
		row := strings.Join(cells[:len(cells)-1], " | ")
		if first, known := above[row]; known {
			problems = append(problems, fmt.Sprintf("%s:%d: the row is that of line %d but for its last cell: keep one of them", page.path, i+1, first))
		}
		above[row] = i + 1
	}
	return rows, problems
}
