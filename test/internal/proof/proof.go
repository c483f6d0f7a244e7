// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package proof reads the tables of docs/reference that name, for every field and
// every reason of a kind, the tests that prove it.
package proof

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// pages is the folder of the tables, in the repository.
const pages = "docs/reference"

// Test is a test as a table names it.
type Test struct {
	// Folder is that of its package, in the repository.
	Folder, Name string
	// Case is the text of the case, if only one of the test's cases is meant.
	Case string
}

// Row is a row of a table.
type Row struct {
	Table Table
	// What is the path of a field, or a reason.
	What string
	// Text is the cell that names the tests.
	Text string
}

// Name returns how a row is known among those of all tables.
func (r Row) Name() string { return r.Table.Kind + " " + r.What }

// OfReason reports whether the row is about a reason, and not a field.
func (r Row) OfReason() bool {
	first := r.What[0]
	return first >= 'A' && first <= 'Z'
}

// OnlyKept reports whether the row says that its tests prove no effect of the field,
// but only which values are kept and which are refused.
func (r Row) OnlyKept() bool { return strings.Contains(r.Text, "(kept;") }

// OnlyWritten reports whether the row says that its tests prove no effect of the field,
// but only that it is written.
func (r Row) OnlyWritten() bool { return strings.Contains(r.Text, "(nothing is estimated by it yet)") }

// named matches a test, or the name of one of its cases in italics.
func named() *regexp.Regexp {
	return regexp.MustCompile("`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`|\\*([^*]+)\\*")
}

// Tests returns the tests that a row names. All cases in italics that follow a
// test are cases of that test.
func (r Row) Tests() []Test {
	var tests []Test
	for _, match := range named().FindAllStringSubmatch(r.Text, -1) {
		last := len(tests) - 1
		switch {
		case match[2] != "":
			tests = append(tests, Test{Folder: match[1], Name: match[2]})
		case last >= 0 && tests[last].Case == "":
			tests[last].Case = match[3]
		case last >= 0:
			tests = append(tests, Test{Folder: tests[last].Folder, Name: tests[last].Name, Case: match[3]})
		}
	}
	return tests
}

// Path returns the path of the table's page, in the repository.
func (t Table) Path() string { return filepath.Join(pages, t.Page) }

// Read returns the rows of a table of the repository at root.
func Read(root string, table Table) ([]Row, error) {
	text, err := os.ReadFile(filepath.Join(root, table.Path()))
	if err != nil {
		return nil, fmt.Errorf("reading the proofs of %s: %w", table.Kind, err)
	}
	return Parse(string(text), table), nil
}

// Parse returns the rows in the text of a page.
func Parse(text string, table Table) []Row {
	var rows []Row
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		rows = append(rows, Row{Table: table, What: strings.Trim(strings.TrimSpace(cells[1]), "`"), Text: cells[2]})
	}
	return rows
}
