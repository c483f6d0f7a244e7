// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package columns prints tables whose cells may have characters of several bytes.
package columns

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// gap is how many spaces are between two columns.
const gap = 3

// Text returns the rows, each column as wide as it needs to be.
func Text(rows [][]string) string {
	var widths []int
	for _, cells := range rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for _, cells := range rows {
		line := ""
		for i, cell := range cells {
			line += fmt.Sprintf("%-*s", widths[i]+gap, cell)
		}
		fmt.Fprintln(&text, strings.TrimRight(line, " "))
	}
	return text.String()
}
