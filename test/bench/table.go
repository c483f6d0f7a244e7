// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// table is what a benchmark prints.
type table struct {
	Columns []string    `json:"columns"`
	Rows    [][]float64 `json:"rows"`
}

func (t *table) add(values ...float64) { t.Rows = append(t.Rows, values) }

// String returns the table as Markdown.
func (t table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "|%s\t|\n", strings.Join(prefixed(t.Columns), "\t|"))
	dashes := make([]string, len(t.Columns))
	for i, column := range t.Columns {
		dashes[i] = strings.Repeat("-", len(column))
	}
	fmt.Fprintf(w, "|%s\t|\n", strings.Join(prefixed(dashes), "\t|"))
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, value := range row {
			cells[i] = number(value)
		}
		fmt.Fprintf(w, "|%s\t|\n", strings.Join(prefixed(cells), "\t|"))
	}
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

func prefixed(cells []string) []string {
	out := make([]string, len(cells))
	for i, cell := range cells {
		out[i] = " " + cell
	}
	return out
}

// number prints three digits that count.
func number(value float64) string {
	if value >= 100 || value == float64(int(value)) {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}
