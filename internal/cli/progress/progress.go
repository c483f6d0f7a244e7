// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package progress shows the steps of a command that takes a while, one line
// for each: what is being done, what it waits for, and that it is done.
//
// On a terminal the line of the step under way is written over; elsewhere, as in
// a log, each change is a line of its own.
package progress

import (
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/output"
)

// StepPrinter shows steps, one after the other. It is not safe for concurrent use.
type StepPrinter struct {
	// out is where texts are written, and terminal where what moves the cursor is.
	out, terminal io.Writer
	// columns returns how wide the terminal is now, or 0 if that is not known; it
	// is nil if out is no terminal.
	columns func() int
	// step and waits are those of the step under way; step is empty if there is none.
	step, waits string
}

// NewStepPrinter returns StepPrinter that are shown on out. The terminal may be behind an
// output.Escaped.
func NewStepPrinter(out io.Writer) *StepPrinter {
	s := &StepPrinter{out: out, terminal: output.Unescaped(out)}
	if file, isFile := s.terminal.(*os.File); isFile && term.IsTerminal(int(file.Fd())) {
		s.columns = func() int { return terminalWidth(int(file.Fd())) }
	}
	return s
}

// terminalWidth returns how many columns a terminal has, or 0 if it does not tell.
func terminalWidth(terminal int) int {
	columns, _, err := term.GetSize(terminal)
	if err != nil {
		return 0
	}
	return columns
}

// RunStep shows a step while do runs, and how it ended. The error of do is returned
// as it is; it is not shown.
func (s *StepPrinter) RunStep(step string, do func() error) error {
	s.step = step
	s.waits = ""
	s.showLine("•", s.step+"  ...", false)
	err := do()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	s.showLine(mark, s.step, true)
	s.step = ""
	s.waits = ""
	return err
}

// ShowWaiting shows what the step under way waits for; nothing if that is as before or
// no step is under way.
func (s *StepPrinter) ShowWaiting(format string, args ...any) {
	waits := fmt.Sprintf(format, args...)
	if s.step == "" || waits == s.waits {
		return
	}
	s.waits = waits
	s.showLine("•", s.step+"  ... "+waits, false)
}

// showLine writes a line, over the one before if that was not the last of its step.
func (s *StepPrinter) showLine(mark, text string, last bool) {
	const (
		begin     = "\r"
		clearRest = "\x1b[K"
	)
	line := " " + mark + " " + columns.OneLine(text) // a member may have written what is waited for
	switch {
	case s.columns == nil:
		fmt.Fprintln(s.out, line)
	case last:
		s.overwriteLine(begin, line, clearRest+"\n")
	default:
		s.overwriteLine(begin, truncateLine(output.EscapeText(line), s.columns()), clearRest)
	}
}

// overwriteLine writes a line between what moves the cursor.
func (s *StepPrinter) overwriteLine(before, line, after string) {
	fmt.Fprint(s.terminal, before)
	fmt.Fprint(s.out, line)
	fmt.Fprint(s.terminal, after)
}

// truncateLine shortens a line that is written over: of one that continues on the next
// row of the terminal, only that row could be. The last column stays free, as
// some terminals go on to the next row once it is taken.
func truncateLine(line string, columns int) string {
	const more = "…"
	if columns <= 0 || utf8.RuneCountInString(line) < columns {
		return line
	}
	return string([]rune(line)[:max(columns-2, 0)]) + more
}
