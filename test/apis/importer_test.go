// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apis imports the packages in apis as other projects do: from a module
// of its own, which has nothing but them.
package apis

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	module   = "github.com/capstan-io/capstan"
	importer = "testdata/importer"
	page     = "../../docs/clients.md"
)

// TestImportingTheTypesCostsNothing builds programs in a module that requires
// Capstan only, and compares the modules that they link with those that a
// program links which needs the same of Kubernetes.
func TestImportingTheTypesCostsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		reason     string
		program    string
		kubernetes []string
	}{
		"Types": {
			"whoever reads and writes our kinds links what the kinds of Kubernetes need", "types",
			[]string{"k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/runtime"},
		},
		"Client": {
			"the client of fleet.capstan.io links what the client of Kubernetes needs", "client",
			[]string{"k8s.io/client-go/kubernetes", "k8s.io/client-go/tools/clientcmd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := newModule(t)
			linked := linkedModules(t, build(t, folder, test.program))
			if !slices.Contains(linked, module) {
				t.Fatalf("the program links %q and not %s: it does not show anything", linked, module)
			}
			required := requirements(t, folder)
			writeProgram(t, folder, "kubernetes", test.kubernetes)
			want := linkedModules(t, build(t, folder, "kubernetes"))
			want = append(want, module)
			slices.Sort(want)
			if diff := cmp.Diff(want, linked); diff != "" {
				t.Errorf("%s; modules (-Kubernetes +ours):\n%s", test.reason, diff)
			}
			if diff := cmp.Diff(want, required); diff != "" {
				t.Errorf("%s; requirements in go.mod (-Kubernetes +ours):\n%s", test.reason, diff)
			}
		})
	}
}

// TestEveryPackageIsImported keeps the program of all types complete.
func TestEveryPackageIsImported(t *testing.T) {
	folder := newModule(t)
	imported := strings.Fields(golang(t, folder, "list", "-deps", "./types"))
	for path := range strings.FieldsSeq(golang(t, "../..", "list", "./apis/...")) {
		if !strings.HasPrefix(path, module+"/apis/fleet/client") && !slices.Contains(imported, path) {
			t.Errorf("%s/types does not import %s, so nothing tells what that costs", importer, path)
		}
	}
}

// TestThePageHasTheProgram compares the Go code in docs/clients.md with the
// programs that these tests build and run.
func TestThePageHasTheProgram(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var programs strings.Builder
	for _, name := range []string{"types", "client"} {
		source, err := os.ReadFile(filepath.Join(importer, name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		programs.Write(source)
	}
	blocks := strings.Split(string(text), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Errorf("%s has no Go code", page)
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(programs.String(), code) {
			t.Errorf("%s has code that is not in %s, so nobody knows whether it works:\n%s", page, importer, code)
		}
	}
}

// newModule returns the folder of a module with the programs, which knows nothing
// but where Capstan is. What it needs is in the module cache, as Capstan needs it.
func newModule(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(importer)); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "go.sum"), string(sums))
	write(t, filepath.Join(folder, "go.mod"), fmt.Sprintf("module example.com/importer\n\ngo 1.26.0\n\nrequire %[1]s v0.0.0\n\nreplace %[1]s => %[2]s\n", module, root))
	return folder
}

// writeProgram writes a program that does nothing but import packages.
func writeProgram(t *testing.T, folder, name string, packages []string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(folder, name), 0o700); err != nil {
		t.Fatal(err)
	}
	source := "package main\n\nimport (\n"
	for _, path := range packages {
		source += fmt.Sprintf("\t_ %q\n", path)
	}
	write(t, filepath.Join(folder, name, "main.go"), source+")\n\nfunc main() {}\n")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// build compiles a program of the module and returns the executable.
func build(t *testing.T, folder, program string) string {
	t.Helper()
	executable := filepath.Join(folder, "bin", program)
	golang(t, folder, "build", "-o", executable, "./"+program)
	return executable
}

// linkedModules returns the modules that an executable is made of.
func linkedModules(t *testing.T, executable string) []string {
	t.Helper()
	info, err := buildinfo.ReadFile(executable)
	if err != nil {
		t.Fatal(err)
	}
	var modules []string
	for _, dependency := range info.Deps {
		modules = append(modules, dependency.Path)
	}
	slices.Sort(modules)
	return modules
}

// requirements returns the modules that the go.mod of the module names.
func requirements(t *testing.T, folder string) []string {
	t.Helper()
	var modules []string
	for line := range strings.Lines(golang(t, folder, "mod", "edit", "-print")) {
		if path, version, found := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "require ")), " v"); found && version != "" && !strings.HasPrefix(line, "replace") {
			modules = append(modules, path)
		}
	}
	slices.Sort(modules)
	return modules
}

// golang runs the go command without a network, and returns what it prints.
func golang(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath -gcflags=all=-dwarf=false -mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
