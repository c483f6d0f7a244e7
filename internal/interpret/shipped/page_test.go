// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package shipped_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/interpret/customized"
	"github.com/capstan-io/capstan/internal/interpret/lua"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
)

// TestThePageSaysWhatIsShipped compares the table of the documentation with the
// scripts.
func TestThePageSaysWhatIsShipped(t *testing.T) {
	t.Parallel()
	const page, end = "../../../docs/reference/interpreters.md", "<!-- end of kinds -->"
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(content), "-->\n")
	_, after, also := strings.Cut(rest, end)
	if !found || !also {
		t.Fatal("the page has no table")
	}
	want := before + "-->\n\n" + table(t) + "\n" + end + after
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(content)); diff != "" {
		t.Errorf("%s differs (-update writes it):\n%s", page, diff)
	}
}

func table(t *testing.T) string {
	t.Helper()
	columns := []struct {
		name      string
		operation lua.Operation
	}{
		{"replicas", lua.ReplicaResource},
		{"revised", lua.ReplicaRevision},
		{"components", lua.ComponentResource},
		{"retained", lua.Retention},
		{"reported", lua.StatusReflection},
		{"status", lua.StatusAggregation},
		{"health", lua.HealthInterpretation},
		{"needs", lua.DependencyInterpretation},
	}
	var text strings.Builder
	text.WriteString("| Kind |")
	for _, c := range columns {
		text.WriteString(" " + c.name + " |")
	}
	text.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, kind := range shipped.All() {
		customization, err := shipped.Read(kind)
		if err != nil {
			t.Fatal(err)
		}
		says := customized.Of(customization)
		fmt.Fprintf(&text, "| `%s` of `%s/%s` |", kind.Kind, kind.Group, says.Kind.Version)
		for _, c := range columns {
			_, has := says.Scripts[c.operation]
			switch {
			case has:
				text.WriteString(" yes |")
			case c.operation == lua.StatusAggregation:
				text.WriteString(" usual |")
			default:
				text.WriteString(" |")
			}
		}
		text.WriteString("\n")
	}
	return text.String()
}
