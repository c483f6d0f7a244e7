// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package columns prints tables whose cells may have characters of several bytes.
package columns

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FormatTable returns the rows, each column as wide as it needs to be. Each row is one line,
// whatever its cells have.
func FormatTable(rows [][]string) string { return formatRows(rows, "", 3) }

// FormatSection returns the rows as FormatTable does, for a place below a heading.
func FormatSection(rows [][]string) string { return formatRows(rows, "  ", 2) }

// OneLine returns a text without the white space by which it would look like several, or
// like another column: clusters say of themselves what they like.
func OneLine(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r != ' ' && unicode.IsSpace(r) }) {
		return text
	}
	return strings.Join(strings.Fields(text), " ")
}

// cellText returns the text of a cell on one line, without runs of spaces, which look like the gap between two
// columns, but for those by which a tree indents it.
func cellText(cell string) string {
	text := strings.TrimLeft(cell, " │├└─")
	return cell[:len(cell)-len(text)] + strings.Join(strings.Fields(text), " ")
}

// formatRows returns the rows with an indent, and so many spaces between two columns.
func formatRows(rows [][]string, indent string, gap int) string {
	var widths []int
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cellText(cell)))
		}
	}
	var lines strings.Builder
	for _, cells := range rows {
		line := indent
		for i, cell := range cells {
			line += fmt.Sprintf("%-*s", widths[i]+gap, cellText(cell))
		}
		fmt.Fprintln(&lines, strings.TrimRight(line, " "))
	}
	return lines.String()
}
