// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"regexp"
	"strings"
)

// Verdict is what the output of a test says about it.
type Verdict string

// What the output of a test may say.
const (
	Passed Verdict = "passed"
	// Failed is of a test whose own assertion did not hold.
	Failed Verdict = "failed"
	// Crashed is of a program that panicked or did not end in time.
	Crashed Verdict = "crashed"
	// Absent is of a test, or a case, that did not run.
	Absent Verdict = "absent"
)

// judge reads the verdict on a test from what its program printed.
func judge(output, name string) Verdict {
	has := func(form string) bool {
		return regexp.MustCompile(`(?m)^\s*` + form + regexp.QuoteMeta(name) + ` \(`).MatchString(output)
	}
	switch {
	case regexp.MustCompile(`(?m)^(panic|fatal error): `).MatchString(output):
		return Crashed
	case has("--- FAIL: "):
		return Failed
	case has("--- PASS: "):
		return Passed
	default:
		return Absent
	}
}

// because returns the first lines of a test's output that say why it failed.
func because(output string) string {
	const most = 3
	said := regexp.MustCompile(`(?m)^\s+[a-z0-9_]+\.go:\d+: .*$|^panic: .*$|^fatal error: .*$`).FindAllString(output, most)
	for i := range said {
		said[i] = strings.TrimSpace(said[i])
	}
	return strings.Join(said, "; ")
}
