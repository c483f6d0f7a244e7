// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/test/internal/proof"
)

const page = "docs/reference/placement-proof.md"

// usedIn has the files with mutants of the rows of the test.
func usedIn(row proof.Row) []string {
	return map[string][]string{
		"Placement spec.size":  {"internal/thing/size.go"},
		"Placement spec.color": {"internal/thing/color.go", "config/crd/"},
	}[row.Name()]
}

func TestRowsAreTouchedByWhatTheyDependOn(t *testing.T) {
	const rows = "| `spec.size` | `internal/thing.TestSize` |\n| `spec.color` | `internal/thing.TestColor` |\n"
	for name, c := range map[string]struct {
		path, content string
		want          []string
	}{
		"the text of one":      {page, "| `spec.size` | `internal/thing.TestSize` *more* |\n| `spec.color` | `internal/thing.TestColor` |\n", []string{"spec.size"}},
		"another one":          {page, rows + "| `spec.new` | `internal/thing.TestNew` |\n", []string{"spec.new"}},
		"the code of one":      {"internal/thing/size.go", "package thing // changed\n", []string{"spec.size"}},
		"a definition":         {"config/crd/thing.yaml", "changed\n", []string{"spec.color"}},
		"the tests of one":     {"internal/thing/size_test.go", "package thing\nfunc TestSize(t *testing.T) { changed() }\n", []string{"spec.size"}},
		"what is of no row":    {"internal/thing/other.go", "package thing // changed\n", nil},
		"a test that is gone":  {"internal/thing/gone_test.go", "", nil},
		"a page of other rows": {"docs/other.md", "changed\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for path, content := range map[string]string{
				page: rows, "internal/thing/size.go": "package thing\n", "internal/thing/color.go": "package thing\n", "internal/thing/other.go": "package thing\n",
				"internal/thing/size_test.go": "package thing\nfunc TestSize(t *testing.T) {}\n", "internal/thing/gone_test.go": "package thing\n",
				"internal/thing/color_test.go": "package thing\nfunc TestColor(t *testing.T) {}\n", "config/crd/thing.yaml": "\n", "docs/other.md": "\n",
			} {
				write(t, filepath.Join(root, path), []byte(content))
			}
			git(t, root, "init", "--quiet")
			git(t, root, "add", ".")
			git(t, root, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", "before")
			write(t, filepath.Join(root, c.path), []byte(c.content))
			since, err := changeSince(t.Context(), root, "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			index := slices.IndexFunc(proof.Tables(), func(table proof.Table) bool { return table.Kind == "Placement" })
			all, err := proof.Read(root, proof.Tables()[index])
			if err != nil {
				t.Fatal(err)
			}
			touched, err := since.touched(t.Context(), all, usedIn)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, row := range touched {
				got = append(got, row.What)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestACommitThatIsMissingIsAnError(t *testing.T) {
	root := t.TempDir()
	git(t, root, "init", "--quiet")
	if _, err := changeSince(t.Context(), root, "HEAD~1"); err == nil {
		t.Error("without a commit to compare with, all rows would pass for unchanged")
	}
}

func git(t *testing.T, folder string, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = folder
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func TestASampleOfRowsIsSpreadOverThem(t *testing.T) {
	var rows []proof.Row
	for _, field := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		rows = append(rows, proof.Row{What: field})
	}
	for most, want := range map[int]string{0: "abcdefg", 1: "a", 3: "ace", 7: "abcdefg", 9: "abcdefg"} {
		got := ""
		for _, row := range sampleRows(rows, most) {
			got += row.What
		}
		if got != want {
			t.Errorf("at most %d: got %s, want %s", most, got, want)
		}
	}
}
