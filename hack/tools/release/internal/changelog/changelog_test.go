// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package changelog

import (
	"os"
	"strings"
	"testing"
)

const example = `# Changelog

## [Unreleased]

### Added

- A thing.

## [1.1.0] - 2026-02-03

- Another.

## [1.0.0] - 2026-01-02
`

func TestNotesOfAVersion(t *testing.T) {
	entries, err := Parse(example)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ version, want, err string }{
		"a release has its own entry":                   {version: "1.1.0", want: "- Another."},
		"a candidate without an entry: what is to come": {version: "1.2.0-rc.1", want: "### Added\n\n- A thing."},
		"a release without an entry":                    {version: "1.2.0", err: "no entry 1.2.0 with a text"},
		"an entry that says nothing":                    {version: "1.0.0", err: "no entry 1.0.0 with a text"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := entries.Notes(c.version)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q (%v), want %q (%s)", got, err, c.want, c.err)
			}
		})
	}
}

func TestAFileThatIsNotInForm(t *testing.T) {
	for name, c := range map[string]struct{ content, err string }{
		"a heading of another form": {"## 1.0.0", "line 1"},
		"a version without a date":  {"## [1.0.0]", "no date"},
		"a date that is none":       {"## [1.0.0] - 2026-13-01", "no date"},
		"no semantic version":       {"## [1.x] - 2026-01-01", "no semantic version"},
		"older ones above":          {"## [1.0.0] - 2026-01-01\n## [1.1.0] - 2026-01-02", "belongs above"},
		"a version that is twice":   {"## [1.0.0] - 2026-01-01\n## [1.0.0] - 2026-01-02", "belongs above"},
		"unreleased, with a date":   {"## [Unreleased] - 2026-01-01", "has a date"},
		"unreleased, further down":  {"## [1.0.0] - 2026-01-01\n## [Unreleased]", "belongs above"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(c.content); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want an error about %q", err, c.err)
			}
		})
	}
}

func TestTheChangelogIsInForm(t *testing.T) {
	content, err := os.ReadFile("../../../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := Parse(string(content))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 || entries[0].Version != Unreleased {
		t.Errorf("there is no entry %s at the top", Unreleased)
	}
}
