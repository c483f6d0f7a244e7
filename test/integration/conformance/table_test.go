// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"

	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
)

func TestTheTableIsGreenOnlyIfEveryCasePassedInEveryMode(t *testing.T) {
	cases := []promises.TestCase{{Name: "one"}, {Name: "two", Without: map[installation.JoinMode]string{installation.ModePush: "there is no agent"}}}
	passed := func(r *promises.Table) {
		r.Note("one", installation.ModePull, promises.VerdictPassed)
		r.Note("one", installation.ModePush, promises.VerdictPassed)
		r.Note("two", installation.ModePull, promises.VerdictPassed)
	}
	for name, test := range map[string]struct {
		cases []promises.TestCase
		note  func(*promises.Table)
		want  string // a part of the error; empty for none
	}{
		"all passed":                    {cases, func(*promises.Table) {}, ""},
		"one failed":                    {cases, func(r *promises.Table) { r.Note("one", installation.ModePush, promises.VerdictFailed) }, `"one" in mode Push: FAILED`},
		"one was skipped":               {cases, func(r *promises.Table) { r.Note("two", installation.ModePull, promises.VerdictSkipped) }, `"two" in mode Pull: SKIPPED`},
		"one failed that need not run":  {cases, func(r *promises.Table) { r.Note("two", installation.ModePush, promises.VerdictFailed) }, `"two" in mode Push: FAILED`},
		"a reason is empty":             {[]promises.TestCase{cases[0], {Name: "two", Without: map[installation.JoinMode]string{installation.ModePush: ""}}}, func(*promises.Table) {}, `"two" in mode Push: MISSING`},
		"one did not run":               {append(cases, promises.TestCase{Name: "three"}), func(*promises.Table) {}, `"three" in mode Pull: MISSING`},
		"two have the same name":        {append(cases, promises.TestCase{Name: "one"}), func(*promises.Table) {}, `two cases "one"`},
		"the reason is for another one": {[]promises.TestCase{cases[0], {Name: "two", Without: map[installation.JoinMode]string{installation.ModeHosted: "x"}}}, func(*promises.Table) {}, `"two" in mode Push: MISSING`},
	} {
		t.Run(name, func(t *testing.T) {
			r := promises.NewTable([]installation.JoinMode{installation.ModePull, installation.ModePush}, test.cases)
			passed(r)
			test.note(r)
			err := r.Err()
			if test.want == "" && err != nil {
				t.Errorf("the table is not green: %v\n%s", err, r)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("the table has to say %s, it says %v\n%s", test.want, err, r)
			}
		})
	}
}
