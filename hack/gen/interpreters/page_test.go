// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters

import (
	"os"
	"strings"
	"testing"
)

func TestMistakesInNotesAreFound(t *testing.T) {
	content, err := os.ReadFile("../../../docs/reference/interpreters.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), notesBegin)
	notes, _, _ := strings.Cut(rest, notesEnd)
	first := strings.Split(rest, "\n")[3] // below the headings
	note := func(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |" }
	for name, test := range map[string]struct{ old, with, want string }{
		"a kind that nobody knows":          {first, note("1", "`Kettle`", "health", "a", "b", "c"), `note 1: it is about "Kettle"`},
		"an operation that there is not":    {first, note("1", "all", "boiled", "a", "b", "c"), `note 1: there is no operation "boiled"`},
		"a number that is another":          {first, note("7", "all", "health", "a", "b", "c"), "note 1: it needs its number"},
		"nothing that a user sees":          {first, note("1", "all", "health", "a", "b"), "note 1: it needs its number"},
		"no place for the table":            {tableBegin, "", "the page needs the lines"},
		"no place for the notes":            {notesEnd, "", "the page needs the lines"},
		"no notes about what has a rule":    {notes, "\n| | | | | | |\n|---|---|---|---|---|---|\n", "a note has to say so"},
		"no notes, not even their headings": {notes, "", "a note has to say so"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := RenderPage(strings.Replace(string(content), test.old, test.with, 1))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got the error %v, want one with %q", err, test.want)
			}
		})
	}
}
