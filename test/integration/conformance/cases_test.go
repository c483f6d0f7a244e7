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
)

// section is a part of the cases, with a heading for those who read them.
type section struct {
	title string
	cases []testCase
}

// sections have what users rely on, in the order in which it runs: a cluster
// joins, is told about, has rights and troubles, is used, is away, and leaves.
func sections() []section {
	return []section{
		{"Joining", joining()},
		{"What is reported to the hub", telling()},
		{"The Cluster API", clusterAPI()},
		{"Rights", rightsCases()},
		{"Agents that fail, clusters that are denied", troubles()},
		{"Delivering works", delivering()},
		{"Update strategies", strategies()},
		{"Placing", placing()},
		{"Feedback, conditions and health", reporting()},
		{"Works of bindings", bindings()},
		{"An unreachable cluster", outage()},
		{"Leaving", leaving()},
	}
}

func cases() []testCase {
	var list []testCase
	for _, s := range sections() {
		list = append(list, s.cases...)
	}
	return list
}

const (
	page      = "docs/spec/modes.md"
	pageBegin = "<!-- modes: generated from test/integration/conformance by 'make generate' -->\n"
	pageEnd   = "<!-- end of modes -->\n"
)

var updatePage = flag.Bool("update", false, "write the cases into the page")

func TestThePageOfModesHasTheCases(t *testing.T) {
	path := filepath.Join(root, page)
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
	for _, s := range sections() {
		fmt.Fprintf(&text, "\n### %s\n\n| |", s.title)
		for _, m := range modes() {
			fmt.Fprintf(&text, " %s |", m)
		}
		text.WriteString("\n|---|" + strings.Repeat("---|", len(modes())) + "\n")
		for _, c := range s.cases {
			fmt.Fprintf(&text, "| %s |", c.name)
			for _, m := range modes() {
				if reason := c.without[m]; reason != "" {
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
