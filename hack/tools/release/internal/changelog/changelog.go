// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package changelog reads CHANGELOG.md, which has the form of Keep a Changelog.
package changelog

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

// Unreleased is the name of the entry for what no release has yet.
const Unreleased = "Unreleased"

// Entry is what has changed in a version.
type Entry struct {
	Version string
	// Date is the day of the release. That of Unreleased is zero.
	Date time.Time
	Text string
}

// Entries are those of a file, the newest first.
type Entries []Entry

// Parse reads a file. Versions have to be semantic, dated, and in their order.
func Parse(content string) (Entries, error) {
	heading := regexp.MustCompile(`^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?$`)
	var entries Entries
	for i, line := range strings.Split(content, "\n") {
		if !strings.HasPrefix(line, "## ") {
			if len(entries) > 0 {
				entries[len(entries)-1].Text += line + "\n"
			}
			continue
		}
		match := heading.FindStringSubmatch(line)
		if match == nil {
			return nil, fmt.Errorf("line %d: %q is neither \"## [%s]\" nor \"## [VERSION] - YYYY-MM-DD\"", i+1, line, Unreleased)
		}
		entry := Entry{Version: match[1]}
		if err := entry.date(match[2]); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if len(entries) > 0 && !older(entry.Version, entries[len(entries)-1].Version) {
			return nil, fmt.Errorf("line %d: %s does not come before %s, so it belongs above it", i+1, entry.Version, entries[len(entries)-1].Version)
		}
		entries = append(entries, entry)
	}
	for i := range entries {
		entries[i].Text = strings.TrimSpace(entries[i].Text)
	}
	return entries, nil
}

func (e *Entry) date(text string) error {
	if e.Version == Unreleased {
		if text != "" {
			return fmt.Errorf("%s has a date", Unreleased)
		}
		return nil
	}
	if !semver.IsValid("v" + e.Version) {
		return fmt.Errorf("%s is no semantic version", e.Version)
	}
	var err error
	if e.Date, err = time.Parse(time.DateOnly, text); err != nil {
		return fmt.Errorf("%s has no date (YYYY-MM-DD)", e.Version)
	}
	return nil
}

func older(version, than string) bool {
	return version != Unreleased && (than == Unreleased || semver.Compare("v"+version, "v"+than) < 0)
}

// Notes returns what has changed in a version. A candidate (1.2.0-rc.1) that has
// no entry has what is unreleased.
func (e Entries) Notes(version string) (string, error) {
	wanted := []string{version}
	if semver.Prerelease("v"+version) != "" {
		wanted = append(wanted, Unreleased)
	}
	for _, name := range wanted {
		for _, entry := range e {
			if entry.Version == name && entry.Text != "" {
				return entry.Text, nil
			}
		}
	}
	return "", fmt.Errorf("there is no entry %s with a text: say there what users of it gain or have to do", strings.Join(wanted, " or "))
}
