// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docs keeps the generated parts of the pages in docs as the code is.
package docs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	// updateVariable makes the test write the page instead of comparing it.
	updateVariable = "CAPSTAN_UPDATE_DOCS"
	page           = "../../docs/ARCHITECTURE.md"
	module         = "github.com/capstan-io/capstan/"
	begin          = "<!-- packages: generated from the code by 'make generate' -->\n"
	end            = "<!-- end of packages -->\n"
)

// TestThePackagesOfTheArchitectureAreTheCodes compares the table of packages in
// docs/ARCHITECTURE.md with the code.
func TestThePackagesOfTheArchitectureAreTheCodes(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(content), begin)
	old, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s has no part between %q and %q", page, begin, end)
	}
	table := packages(t)
	if os.Getenv(updateVariable) != "" {
		if err := os.WriteFile(page, []byte(before+begin+table+end+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, old); diff != "" {
		t.Errorf("%s is not as the code is; 'make generate' mends it (-code +page):\n%s", page, diff)
	}
}

// packages returns a table of the packages of the product, with what their
// documentation begins with.
func packages(t *testing.T) string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.ImportPath}}\t{{.Doc}}",
		"./apis/...", "./cmd/...", "./config/...", "./internal/...", "./operators/...")
	list.Dir = "../.."
	out, err := list.Output()
	if err != nil {
		t.Fatalf("listing the packages: %v", err)
	}
	var table strings.Builder
	table.WriteString("\n| package | |\n|---|---|\n")
	for line := range strings.Lines(string(out)) {
		path, doc, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if doc == "" || strings.HasPrefix(path, module+"apis/fleet/client/") {
			continue // tests alone, or generated
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", strings.TrimPrefix(path, module), sentence(path, doc))
	}
	table.WriteString("\n")
	return table.String()
}

// sentence returns what a package does, without its name before it.
func sentence(path, doc string) string {
	name := path[strings.LastIndex(path, "/")+1:]
	for _, prefix := range []string{"Package " + name + " ", "Command " + name + " "} {
		doc = strings.TrimPrefix(doc, prefix)
	}
	return strings.ReplaceAll(strings.TrimSuffix(doc, "."), "|", "\\|")
}
