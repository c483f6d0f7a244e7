// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// testCase is one promise, which is kept in every mode.
type testCase struct {
	// name is the promise, as a sentence.
	name string
	run  func(*scene)
	// alone is for a case that others cannot run beside.
	alone bool
	// without has, for each mode in which nothing could be promised, the reason.
	without map[mode]string
}

// verdict is what became of a case in a mode.
type verdict string

const (
	verdictPassed  verdict = "ok"
	verdictFailed  verdict = "FAILED"
	verdictSkipped verdict = "SKIPPED"
	// verdictMissing is that of a case that did not run.
	verdictMissing verdict = "MISSING"
	// verdictWithout is that of a case that says why it does not run.
	verdictWithout verdict = "-"
)

// table has the verdicts, a row for each case and a column for each mode.
type table struct {
	modes []mode
	cases []testCase

	mu    sync.Mutex
	cells map[cell]verdict
}

type cell struct {
	name string
	mode mode
}

func newTable(modes []mode, cases []testCase) *table {
	return &table{modes: modes, cases: cases, cells: map[cell]verdict{}}
}

func (r *table) note(name string, m mode, v verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cells[cell{name, m}] = v
}

func (r *table) verdict(c testCase, m mode) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v, ok := r.cells[cell{c.name, m}]; ok {
		return v
	}
	if c.without[m] != "" {
		return verdictWithout
	}
	return verdictMissing
}

// toldMax is how many of the things that are not good err tells; the table has
// all of them.
const toldMax = 12

// err is nil only if every case has passed in every mode, or says why it is not
// for that one.
func (r *table) err() error {
	var errs []error
	known := map[string]bool{}
	for _, c := range r.cases {
		if known[c.name] {
			errs = append(errs, fmt.Errorf("there are two cases %q", c.name))
		}
		known[c.name] = true
		for _, m := range r.modes {
			if v := r.verdict(c, m); v != verdictPassed && v != verdictWithout {
				errs = append(errs, fmt.Errorf("%q in mode %s: %s", c.name, m, v))
			}
		}
	}
	if more := len(errs) - toldMax; more > 0 {
		errs = append(errs[:toldMax], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// String prints the table with the reasons below.
func (r *table) String() string {
	width := 0
	for _, c := range r.cases {
		width = max(width, utf8.RuneCountInString(c.name))
	}
	var text, notes strings.Builder
	fmt.Fprintf(&text, "%-*s", width, "")
	for _, m := range r.modes {
		fmt.Fprintf(&text, "  %-9s", m)
	}
	text.WriteByte('\n')
	for _, c := range r.cases {
		fmt.Fprintf(&text, "%-*s", width, c.name)
		for _, m := range r.modes {
			v := r.verdict(c, m)
			fmt.Fprintf(&text, "  %-9s", v)
			if v == verdictWithout {
				fmt.Fprintf(&notes, "- %s in mode %s: %s\n", c.name, m, c.without[m])
			}
		}
		text.WriteByte('\n')
	}
	return text.String() + notes.String()
}

func TestTheTableIsGreenOnlyIfEveryCasePassedInEveryMode(t *testing.T) {
	cases := []testCase{{name: "one"}, {name: "two", without: map[mode]string{modePush: "there is no agent"}}}
	passed := func(r *table) {
		r.note("one", modePull, verdictPassed)
		r.note("one", modePush, verdictPassed)
		r.note("two", modePull, verdictPassed)
	}
	for name, test := range map[string]struct {
		cases []testCase
		note  func(*table)
		want  string // a part of the error; empty for none
	}{
		"all passed":                    {cases, func(*table) {}, ""},
		"one failed":                    {cases, func(r *table) { r.note("one", modePush, verdictFailed) }, `"one" in mode Push: FAILED`},
		"one was skipped":               {cases, func(r *table) { r.note("two", modePull, verdictSkipped) }, `"two" in mode Pull: SKIPPED`},
		"one failed that need not run":  {cases, func(r *table) { r.note("two", modePush, verdictFailed) }, `"two" in mode Push: FAILED`},
		"a reason is empty":             {[]testCase{cases[0], {name: "two", without: map[mode]string{modePush: ""}}}, func(*table) {}, `"two" in mode Push: MISSING`},
		"one did not run":               {append(cases, testCase{name: "three"}), func(*table) {}, `"three" in mode Pull: MISSING`},
		"two have the same name":        {append(cases, testCase{name: "one"}), func(*table) {}, `two cases "one"`},
		"the reason is for another one": {[]testCase{cases[0], {name: "two", without: map[mode]string{modeHosted: "x"}}}, func(*table) {}, `"two" in mode Push: MISSING`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTable([]mode{modePull, modePush}, test.cases)
			passed(r)
			test.note(r)
			err := r.err()
			if test.want == "" && err != nil {
				t.Errorf("the table is not green: %v\n%s", err, r)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("the table has to say %s, it says %v\n%s", test.want, err, r)
			}
		})
	}
}
