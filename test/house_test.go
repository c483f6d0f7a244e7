// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// houseFigure is one by which a first reader finds the way: in names that can be searched, in
// folders that can be guessed, in code that says one thing a line.
type houseFigure struct {
	name string
	// goal is what the figure shall become, and bound what it may not be worse than now:
	// who makes it better moves the bound.
	goal, bound float64
	// more says that more is better.
	more  bool
	value float64
}

// worse reports whether the figure is on the wrong side of a limit.
func (f houseFigure) worse(limit float64) bool {
	if f.more {
		return f.value < limit
	}
	return f.value > limit
}

// TestTheHouseIsEasyToFindOnesWayIn counts product code without generated files; helpers are
// counted in all tests.
func TestTheHouseIsEasyToFindOnesWayIn(t *testing.T) {
	h := &house{packages: map[string]map[string]bool{}}
	entries, err := os.ReadDir("../internal")
	if err != nil {
		t.Fatal(err)
	}
	h.rooms = len(slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !e.IsDir() }))
	h.modules = countModules(t)
	forEachFile(t, func(path string, source []byte, fset *token.FileSet, file *ast.File) {
		root, _, _ := strings.Cut(path, "/")
		switch {
		case ast.IsGenerated(file) || strings.HasPrefix(filepath.Base(path), "zz_"):
		case strings.HasSuffix(path, "_test.go"):
			h.countTests(fset, file)
		case root != "test" && root != "hack":
			h.countProduct(path, source, file)
		}
	})
	for _, f := range []houseFigure{
		{name: "function names of one word, %", goal: 40, bound: 12, value: oneWord(h.functions)},
		{name: "type names of one word, %", goal: 60, bound: 35, value: oneWord(h.types)},
		{name: "function names in 5 or more packages, %", goal: 18, bound: 8, value: h.recurring()},
		{name: "median length of a function's name", goal: 11, bound: 11, more: true, value: medianLength(h.functions)},
		{name: "folders in internal", goal: 20, bound: 20, value: float64(h.rooms)},
		{name: "test lines in helper functions, %", goal: 20, bound: 20, value: percent(h.helperLines, h.testLines)},
		{name: "Go modules, but for those of test/peers", goal: 8, bound: 6, value: float64(h.modules)},
		{name: "assignments of several values at once, % of code lines", goal: 0.3, bound: 0.3, value: percent(h.tuples, h.codeLines)},
	} {
		state := "ok"
		if f.worse(f.goal) {
			state = "short of the goal"
		}
		t.Logf("%-56s %6.2f  goal %5.1f  %s", f.name, f.value, f.goal, state)
		if f.worse(f.bound) {
			t.Errorf("%s: %.2f is worse than %.2f, which it was: see CONTRIBUTING.md for names, folders and assignments", f.name, f.value, f.bound)
		}
	}
}

// house is what is counted of the repository.
type house struct {
	// functions and types are the names of all, but for types of the API, whose names are
	// those on the wire; packages are the folders that have a function of a name.
	functions, types []string
	packages         map[string]map[string]bool

	rooms, modules         int
	tuples, codeLines      int
	helperLines, testLines int
}

// countModules leaves out test/peers/<project>, each of which only links the code of a project
// to test against it: otherwise, to ask one more project would cost a module.
func countModules(t *testing.T) int {
	t.Helper()
	modules := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, entry.Name()):
			return filepath.SkipDir
		case entry.Name() == "go.mod" && filepath.Dir(filepath.Dir(path)) != "../test/peers":
			modules++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return modules
}

func (h *house) countTests(fset *token.FileSet, file *ast.File) {
	for _, declaration := range file.Decls {
		lines := fset.Position(declaration.End()).Line - fset.Position(declaration.Pos()).Line + 1
		h.testLines += lines
		function, ok := declaration.(*ast.FuncDecl)
		if ok && !regexp.MustCompile(`^(Test|Benchmark|Fuzz|Example)`).MatchString(function.Name.Name) {
			h.helperLines += lines
		}
	}
}

func (h *house) countProduct(path string, source []byte, file *ast.File) {
	for line := range bytes.Lines(source) {
		if text := bytes.TrimSpace(line); len(text) > 0 && !bytes.HasPrefix(text, []byte("//")) {
			h.codeLines++
		}
	}
	folder := filepath.Dir(path)
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			h.functions = append(h.functions, n.Name.Name)
			if h.packages[n.Name.Name] == nil {
				h.packages[n.Name.Name] = map[string]bool{}
			}
			h.packages[n.Name.Name][folder] = true
		case *ast.TypeSpec:
			if !strings.HasPrefix(folder, "apis/") {
				h.types = append(h.types, n.Name.Name)
			}
		case *ast.AssignStmt:
			if len(n.Lhs) > 1 && len(n.Lhs) == len(n.Rhs) {
				h.tuples++
			}
		}
		return true
	})
}

// recurring returns how many functions, in percent, have a name that five packages or more use.
func (h *house) recurring() float64 {
	names := 0
	for _, name := range h.functions {
		if len(h.packages[name]) >= 5 {
			names++
		}
	}
	return percent(names, len(h.functions))
}

// oneWord returns how many of the names, in percent, are one word.
func oneWord(names []string) float64 {
	words := regexp.MustCompile(`[A-Z]+[a-z0-9]*|[a-z0-9]+`)
	single := 0
	for _, name := range names {
		if len(words.FindAllString(name, -1)) == 1 {
			single++
		}
	}
	return percent(single, len(names))
}

func medianLength(names []string) float64 {
	var lengths []int
	for _, name := range names {
		lengths = append(lengths, len(name))
	}
	slices.Sort(lengths)
	return float64(lengths[len(lengths)/2])
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(1, whole)) }
