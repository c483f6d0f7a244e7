// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"testing"

	"github.com/capstan-io/capstan/test/internal/proof"
)

func TestTheVerdictIsAboutTheTest(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   Verdict
	}{
		"it passes":             {"--- PASS: TestA (0.1s)\n    --- PASS: TestA/a_case (0.1s)\n", Passed},
		"it fails":              {"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/a_case (0.1s)\n", Failed},
		"only another case":     {"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/a_case_too (0.1s)\n    --- PASS: TestA/a_case (0.1s)\n", Passed},
		"it panics":             {"--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/a_case (0.1s)\npanic: nil [recovered]\n", Crashed},
		"it does not end":       {"panic: test timed out after 4m0s\n", Crashed},
		"it has a data race":    {"fatal error: concurrent map writes\n", Crashed},
		"there is no such case": {"testing: warning: no tests to run\nPASS\n", Absent},
		"it logs a panic":       {"    a_test.go:3: panic: of the server\n    --- FAIL: TestA/a_case (0.1s)\n", Failed},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(c.output, "TestA/a_case"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestATestIsChosenAlone(t *testing.T) {
	test := proof.Test{Name: "TestA", Case: "one (of 2)"}
	if got, want := pattern(test, true), `^TestA$/^one_\(of_2\)$`; got != want {
		t.Errorf("alone: got %s, want %s", got, want)
	}
	if got, want := pattern(test, false), "^TestA$"; got != want {
		t.Errorf("among all: got %s, want %s", got, want)
	}
}

func TestWhyATestFailedIsWhatItSaidFirst(t *testing.T) {
	output := "=== RUN TestA\nI1127 a log.go:3] a line\n    a_test.go:7: got 1, want 2\n    a_test.go:8: and so on\n--- FAIL: TestA (0s)\n"
	if got, want := because(output), "a_test.go:7: got 1, want 2; a_test.go:8: and so on"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
