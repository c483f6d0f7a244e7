// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheReportAsksForWhatIsToBeDone(t *testing.T) {
	const row = "Thing spec.size"
	for name, c := range map[string]struct {
		outcome    outcome
		exceptions map[string]string
		part       bool
		want       string // in the report, if it asks for something
	}{
		"it is killed":                 {outcome: killed},
		"it survives":                  {outcome: survived, want: row + ": survived"},
		"it is not reached":            {outcome: notReached, want: row + ": not reached"},
		"it panics":                    {outcome: panicked, want: row + ": panicked"},
		"it fails anyway":              {outcome: failing, want: row + ": failing"},
		"it survives as it may":        {outcome: survived, exceptions: map[string]string{row: "why"}},
		"it needs no exception":        {outcome: killed, exceptions: map[string]string{row: "why"}, want: "take it out of the exceptions"},
		"an exception of no row":       {outcome: killed, exceptions: map[string]string{"Thing spec.no": "why"}, want: "there is no such row"},
		"an exception of another part": {outcome: killed, exceptions: map[string]string{"Thing spec.no": "why"}, part: true},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			r := &report{out: &out, total: 1}
			r.add(result{Row: row, Outcome: c.outcome, Mutant: "read:" + row, Value: "zero"})
			ok := r.end(c.exceptions, !c.part)
			if ok != (c.want == "") || !strings.Contains(out.String(), c.want) {
				t.Errorf("it reports %t and\n%swant %q", ok, &out, c.want)
			}
			if counted := string(c.outcome) + strings.Repeat(" ", 13-len(c.outcome)) + "1\n"; !strings.Contains(out.String(), counted) {
				t.Errorf("it does not count the row as %s:\n%s", c.outcome, &out)
			}
		})
	}
}
