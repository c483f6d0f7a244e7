// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expression_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFindAllFindsWhatGoDoes compares it with the package of Go, which reads a text at once.
func TestFindAllFindsWhatGoDoes(t *testing.T) {
	t.Parallel()
	e := environment(t)
	for _, pattern := range []string{
		"a", "a+", "a*", "", "^a", "(?m)^a.", "a$", "(?m)a$", `\ba`, `\Ba`, "a|ab", "ab|a", "a*b|a", "a*?", "(?i)A", "(?s).", ".*",
		"[0-9]+", `\w+`, `[^,]*`, `\Qa.b`, `\Qb)`, "(a)(b)", `(?i)é|[^a]`, `(?m)^$|a\b`, "(?U)a+", "é", `\pL+`, "(a|b)?", `$`, `\z`, `a\z|b`,
	} {
		for _, text := range []string{"", "a", "aaab", "abcabc", "a1b22c333", "one,two,,three", "a\nab\nba", "éaéb", "a\xffb\xff", "a.b a.b", " a ", "b)b)", "É\n\na"} {
			value, _, err := run(t, e, "object.text.findAll(object.pattern)", map[string]any{"text": text, "pattern": pattern})
			got, _ := value.([]string)
			if want := regexp.MustCompile(pattern).FindAllString(text, -1); err != nil || !slices.Equal(got, want) {
				t.Errorf("%q finds %q in %q (%v), want %q", pattern, got, text, err, want)
			}
		}
	}
	for limit, want := range map[string]int{"0": 0, "2": 2, "9": 3, "-1": 3} {
		value, _, err := run(t, e, "object.findAll('[0-9]+', "+limit+")", "1, 22, 333")
		if got, _ := value.([]string); err != nil || len(got) != want {
			t.Errorf("with a limit of %s %q are found (%v), want %d", limit, got, err, want)
		}
	}
}

// TestFindAllFindsManyInALongText has regular expressions as users write them, which read hardly more
// than what they find.
func TestFindAllFindsManyInALongText(t *testing.T) {
	t.Parallel()
	const many = 1000
	e := environment(t)
	text := strings.Repeat("member-1.example:6443, ", many)
	for _, pattern := range []string{`[0-9]{4}`, `[a-z]+-[0-9]+`, `\bmember-\d+\b`, `[a-z0-9.-]+:[0-9]+`, `(?i)MEMBER-[0-9]+`, `[^, ]+`} {
		value, cost, err := run(t, e, "object.text.findAll(object.pattern)", map[string]any{"text": text, "pattern": pattern})
		if got, _ := value.([]string); err != nil || len(got) != many {
			t.Errorf("%s finds %d strings (%v), want %d; it costs %d", pattern, len(got), err, many, cost)
		}
	}
}
