// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/test/internal/proof"
	"github.com/capstan-io/capstan/test/mutation/schemata"
)

// The product of the test: a kind, what is made of it, and tests.
const (
	types = `package v1
type Thing struct {
	Spec   ThingSpec   ` + "`json:\"spec\"`" + `
	Status ThingStatus ` + "`json:\"status\"`" + `
}
type ThingSpec struct {
	Size    int      ` + "`json:\"size\"`" + `
	Color   string   ` + "`json:\"color\"`" + `
	Parts   []Part   ` + "`json:\"parts\"`" + `
	Limit   *int     ` + "`json:\"limit\"`" + `
	Base    *Base    ` + "`json:\"base\"`" + `
	Unread  string   ` + "`json:\"unread\"`" + `
	Strict  bool     ` + "`json:\"strict\"`" + `
	Elsewhere string ` + "`json:\"elsewhere\"`" + `
}
type Base struct { N *int ` + "`json:\"n\"`" + ` }
type Part struct { Name string ` + "`json:\"name\"`" + ` }
type ThingStatus struct {
	Total int    ` + "`json:\"total\"`" + `
	Names []string ` + "`json:\"names\"`" + `
	Phase string ` + "`json:\"phase\"`" + `
}
const (
	ThingReasonTooBig = "TooBig"
	ThingReasonFine = "Fine"
)
`
	code = `package thing
import v1 "github.com/capstan-io/capstan/apis/thing/v1"
func Status(spec *v1.ThingSpec) (v1.ThingStatus, string) {
	status := v1.ThingStatus{Phase: "Done"}
	for i := range spec.Parts {
		part := &spec.Parts[i]
		status.Names = append(status.Names, part.Name)
	}
	status.Total = spec.Size*len(spec.Parts) + *spec.Base.N
	if spec.Color == "" {
		status.Total++
	}
	if status.Total > *spec.Limit {
		return status, v1.ThingReasonTooBig
	}
	return status, v1.ThingReasonFine
}
func Elsewhere(spec *v1.ThingSpec) string { return spec.Elsewhere }
`
	webhook = `package webhook
import v1 "github.com/capstan-io/capstan/apis/thing/v1"
func Refuse(spec *v1.ThingSpec) bool { return spec.Strict && spec.Size > 9 }
`
	tests = `package thing
import (
	"testing"
	v1 "github.com/capstan-io/capstan/apis/thing/v1"
	"github.com/capstan-io/capstan/internal/webhook"
)
func made() (v1.ThingStatus, string) {
	limit := 10
	return Status(&v1.ThingSpec{Size: 3, Limit: &limit, Base: &v1.Base{N: new(int)}, Color: "red", Parts: []v1.Part{{Name: "a"}, {Name: "b"}}})
}
func TestTotal(t *testing.T) { if status, _ := made(); status.Total != 6 { t.Errorf("the total is %d, want 6", status.Total) } }
func TestCases(t *testing.T) {
	status, reason := made()
	t.Run("the names", func(t *testing.T) { if len(status.Names) != 2 || status.Names[0] != "a" { t.Error("names are", status.Names) } })
	t.Run("the reason", func(t *testing.T) { if reason != "Fine" { t.Error("the reason is", reason) } })
	t.Run("nothing", func(t *testing.T) {})
}
func TestRefusal(t *testing.T) {
	if !webhook.Refuse(&v1.ThingSpec{Strict: true, Size: 10}) { t.Error("it is not refused") }
}
func TestBroken(t *testing.T) { t.Error("it fails anyway") }
`
)

// TestOutcomes checks rows of a module of its own, which has what the check needs of ours.
func TestOutcomes(t *testing.T) {
	root := t.TempDir()
	for path, content := range map[string]string{
		"apis/thing/v1/types.go": types, "config/config.go": "package config\n", "operators/doc.go": "package operators\n",
		"cmd/doc.go": "package cmd\n", "internal/thing/thing.go": code, "internal/thing/thing_test.go": tests, "internal/webhook/webhook.go": webhook,
	} {
		write(t, filepath.Join(root, path), []byte(content))
	}
	for _, path := range []string{"go.mod", "go.sum", "test/mutation/mutant/mutant.go", "test/mutation/mutant/value.go", "test/mutation/mutant/definition.go"} {
		content, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, path), content)
	}
	const f = "`internal/thing."
	cases := map[string]struct {
		what, tests string
		want        outcome
	}{
		"a field with an effect":                     {"spec.size", f + "TestTotal`", killed},
		"a text that counts if it is empty":          {"spec.color", f + "TestTotal`", killed},
		"another test that proves nothing":           {"spec.size", f + "TestCases` *nothing*, " + f + "TestTotal`", killed},
		"a test that proves nothing":                 {"spec.color", f + "TestCases` *the names*", survived},
		"a case that proves it":                      {"spec.parts[].name", f + "TestCases` *the names*", killed},
		"a struct that must not be missing":          {"spec.base", f + "TestTotal`", panicked},
		"a number that must not be missing":          {"spec.limit", f + "TestTotal`", survived},
		"a test that comes to nothing":               {"spec.elsewhere", f + "TestTotal`", notReached},
		"a test of a refusal only":                   {"spec.size", f + "TestRefusal`", notReached},
		"a field that is only refused":               {"spec.strict", f + "TestRefusal`", killed},
		"a field of a definition that no test reads": {"spec.unread", f + "TestTotal`", notReached},
		"a field that nothing reads":                 {"spec.unread", f + "TestTotal`", unresolved},
		"a field of the status that is assigned":     {"status.total", f + "TestTotal`", killed},
		"a field of the status that is in a literal": {"status.phase", f + "TestTotal`", survived},
		"a field of the status that is appended to":  {"status.names", f + "TestCases` *the names*", killed},
		"a reason":                           {"Fine", f + "TestCases` *the reason*", killed},
		"a reason that no test comes to":     {"TooBig", f + "TestCases` *the reason*", notReached},
		"a test that fails without a mutant": {"spec.size", f + "TestBroken`", failing},
		"a case that there is none of":       {"spec.size", f + "TestCases` *no such case*", failing},
	}
	var all []proof.Row
	want := map[string]outcome{}
	for name, c := range cases {
		table := proof.Table{Kind: "Thing", Page: name, Defined: c.want == notReached, Folder: "apis/thing/v1", Reasons: "ThingReason"}
		all = append(all, proof.Row{Table: table, What: c.what, Text: c.tests})
		want[name] = c.want
	}
	w, err := newWorkshop(root, all)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]outcome{}
	for _, row := range all {
		for _, time := range []string{"first", "again, from what is kept"} {
			report := &report{out: &bytes.Buffer{}, total: 1}
			if err := w.check(t.Context(), []proof.Row{row}, 1, report); err != nil {
				t.Fatal(err)
			}
			if before, ok := got[row.Table.Page]; ok && before != report.results[0].Outcome {
				t.Errorf("%s, %s: %s, and %s before", row.Table.Page, time, report.results[0].Outcome, before)
			}
			got[row.Table.Page] = report.results[0].Outcome
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAChangeThatTouchesNoRowPasses(t *testing.T) {
	w := &workshop{root: t.TempDir(), overlay: &schemata.Overlay{Root: t.TempDir()}}
	report := &report{out: &bytes.Buffer{}}
	if err := w.check(t.Context(), nil, 1, report); err != nil {
		t.Error(err)
	}
	if !report.end(exceptions(), false) {
		t.Errorf("it asks for something:\n%s", report.out)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTestsOfRefusalsAreThoseOfRows(t *testing.T) {
	all, err := allRows("../..")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, row := range all {
		for _, test := range row.Tests() {
			named[test.Folder+"."+test.Name] = true
		}
	}
	for _, test := range refusals() {
		if !named[test] {
			t.Errorf("%s is in refusals(), and no row names it", test)
		}
		folder, name, _ := strings.Cut(test, ".")
		row := proof.Row{Text: "`" + folder + "." + name + "`"}
		if len(proving(row, "read:Thing spec.size")) > 0 || len(proving(row, "refuse:Thing spec.size")) == 0 {
			t.Errorf("%s has to prove a refusal, and no effect", test)
		}
	}
}
