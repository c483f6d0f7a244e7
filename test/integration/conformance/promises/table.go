// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// TestCase is one promise, which is kept in every mode.
type TestCase struct {
	// Name is the promise, as a sentence.
	Name string
	Run  func(*Scene)
	// alone is for a case that others cannot run beside.
	alone bool
	// Without has, for each mode in which nothing could be promised, the reason.
	Without map[installation.JoinMode]string
}

// verdict is what became of a case in a mode.
type verdict string

const (
	VerdictPassed  verdict = "ok"
	VerdictFailed  verdict = "FAILED"
	VerdictSkipped verdict = "SKIPPED"
	// verdictMissing is that of a case that did not run.
	verdictMissing verdict = "MISSING"
	// verdictWithout is that of a case that says why it does not run.
	verdictWithout verdict = "-"
)

// Table has the verdicts, a row for each case and a column for each mode.
type Table struct {
	Modes []installation.JoinMode
	Cases []TestCase

	mu    sync.Mutex
	cells map[cell]verdict
}

type cell struct {
	name string
	mode installation.JoinMode
}

// NewTable returns a table without verdicts.
func NewTable(modes []installation.JoinMode, cases []TestCase) *Table {
	return &Table{Modes: modes, Cases: cases, cells: map[cell]verdict{}}
}

// Note writes down a verdict.
func (r *Table) Note(name string, m installation.JoinMode, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cells[cell{name, m}] = v
}

func (r *Table) verdict(c TestCase, m installation.JoinMode) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.cells[cell{c.Name, m}]; ok {
		return v
	}
	if c.Without[m] != "" {
		return verdictWithout
	}
	return verdictMissing
}

// toldMax is how many of the things that are not good err tells; the table has
// all of them.
const toldMax = 12

// Err is nil only if every case has passed in every mode, or says why it is not
// for that one.
func (r *Table) Err() error {
	var errs []error
	known := map[string]bool{}
	for _, c := range r.Cases {
		if known[c.Name] {
			errs = append(errs, fmt.Errorf("there are two cases %q", c.Name))
		}
		known[c.Name] = true
		for _, m := range r.Modes {
			if v := r.verdict(c, m); v != VerdictPassed && v != verdictWithout {
				errs = append(errs, fmt.Errorf("%q in mode %s: %s", c.Name, m, v))
			}
		}
	}
	if more := len(errs) - toldMax; more > 0 {
		errs = append(errs[:toldMax], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// String prints the table with the reasons below.
func (r *Table) String() string {
	width := 0
	for _, c := range r.Cases {
		width = max(width, utf8.RuneCountInString(c.Name))
	}
	var text, notes strings.Builder
	fmt.Fprintf(&text, "%-*s", width, "")
	for _, m := range r.Modes {
		fmt.Fprintf(&text, "  %-9s", m)
	}
	text.WriteByte('\n')
	for _, c := range r.Cases {
		fmt.Fprintf(&text, "%-*s", width, c.Name)
		for _, m := range r.Modes {
			v := r.verdict(c, m)
			fmt.Fprintf(&text, "  %-9s", v)
			if v == verdictWithout {
				fmt.Fprintf(&notes, "- %s in mode %s: %s\n", c.Name, m, c.Without[m])
			}
		}
		text.WriteByte('\n')
	}
	return text.String() + notes.String()
}
