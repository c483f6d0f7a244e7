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

	"golang.org/x/term"
)

// Steps shows steps, one after the other. It is not safe for concurrent use.
type Steps struct {
	out      io.Writer
	terminal bool
	// step and waits are those of the step under way; step is empty if there is none.
	step, waits string
}

// New returns Steps that are shown on out.
func New(out io.Writer) *Steps {
	file, isFile := out.(*os.File)
	return &Steps{out: out, terminal: isFile && term.IsTerminal(int(file.Fd()))}
}

// Do shows a step while do runs, and how it ended. The error of do is returned
// as it is; it is not shown.
func (s *Steps) Do(step string, do func() error) error {
	s.step, s.waits = step, ""
	s.show("•", s.step+"  ...", false)
	err := do()
	mark := "✓"
	if err != nil {
		mark = "✗"
	}
	s.show(mark, s.step, true)
	s.step, s.waits = "", ""
	return err
}

// Waits shows what the step under way waits for; nothing if that is as before or
// no step is under way.
func (s *Steps) Waits(format string, args ...any) {
	waits := fmt.Sprintf(format, args...)
	if s.step == "" || waits == s.waits {
		return
	}
	s.waits = waits
	s.show("•", s.step+"  ... "+waits, false)
}

// show writes a line, over the one before if that was not the last of its step.
func (s *Steps) show(mark, text string, last bool) {
	const (
		begin     = "\r"
		clearRest = "\x1b[K"
	)
	switch {
	case !s.terminal:
		fmt.Fprintf(s.out, " %s %s\n", mark, text)
	case last:
		fmt.Fprintf(s.out, "%s %s %s%s\n", begin, mark, text, clearRest)
	default:
		fmt.Fprintf(s.out, "%s %s %s%s", begin, mark, text, clearRest)
	}
}
