// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
)

const (
	page      = "docs/spec/modes.md"
	pageBegin = "<!-- modes: generated from test/integration/conformance by 'make generate' -->\n"
	pageEnd   = "<!-- end of modes -->\n"
)

var updatePage = flag.Bool("update", false, "write the cases into the page")

func TestThePageOfModesHasTheCases(t *testing.T) {
	path := filepath.Join(installation.Root, page)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), pageBegin)
	tables, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		t.Fatalf("%s needs the lines %q and %q", page, pageBegin, pageEnd)
	}
	want := pageTables()
	if *updatePage {
		if err := os.WriteFile(path, []byte(before+pageBegin+want+pageEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Errorf("%s is not as the cases are: run 'make generate' (- want, + there):\n%s", page, diff)
	}
}

// pageTables returns a table for each section, and the reasons why a promise is
// not for a mode.
func pageTables() string {
	var text strings.Builder
	for _, s := range promises.Sections() {
		fmt.Fprintf(&text, "\n### %s\n\n| |", s.Title)
		for _, m := range installation.JoinModes() {
			fmt.Fprintf(&text, " %s |", m)
		}
		text.WriteString("\n|---|" + strings.Repeat("---|", len(installation.JoinModes())) + "\n")
		for _, c := range s.Cases {
			fmt.Fprintf(&text, "| %s |", c.Name)
			for _, m := range installation.JoinModes() {
				if reason := c.Without[m]; reason != "" {
					fmt.Fprintf(&text, " no: %s |", reason)
				} else {
					text.WriteString(" yes |")
				}
			}
			text.WriteByte('\n')
		}
	}
	text.WriteByte('\n')
	return text.String()
}
