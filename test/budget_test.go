// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Budgets that short functions do not hide: a package that needs many others of ours, or has
// many files, has two concerns.
const (
	importsMax    = 20 // of packages of ours by a package, without tests
	filesMax      = 15 // of a package, without tests and generated files
	complexityMax = 15 // of a function: its decisions plus one, as McCabe counts (1976)
	printedMost   = 5  // how many of the largest are printed of each
)

// registries are packages with one file for each kind or command: what is in
// one of their files concerns no other.
func registries() []string {
	return []string{}
}

// wide are packages that import more of ours than they should, with the number that may only become smaller.
func wide() map[string]int {
	return map[string]int{
		"cmd/capstan-manager":               41,
		"internal/agent/work":               30,
		"internal/cli":                      25,
		"internal/cli/explain/trace":        21,
		"internal/hub/propagation":          46,
		"internal/hub/propagation/bindings": 35,
		"internal/hub/registration":         25,
		"operators/clustermanager":          29,
		"operators/klusterlet":              23,
	}
}

// figure is one measured thing.
type figure struct {
	what string
	n    int
}

// TestBudgets prints the largest of each and fails on those above the budget.
func TestBudgets(t *testing.T) {
	c := &code{files: map[string]int{}, imports: map[string]map[string]bool{}}
	forEachFile(t, func(path string, _ []byte, _ *token.FileSet, file *ast.File) {
		if ast.IsGenerated(file) {
			return
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		isTest := strings.HasSuffix(path, "_test.go")
		if !isTest {
			c.files[pkg]++
			c.readImports(pkg, file)
		}
		for _, declaration := range file.Decls {
			if function, is := declaration.(*ast.FuncDecl); is {
				c.complexities = append(c.complexities, figure{fmt.Sprintf("%s: %s", path, function.Name.Name), complexity(function)})
			}
		}
	})
	check(t, "packages of ours that one imports", importsMax, c.importCounts())
	check(t, "files of a package", filesMax, c.fileCounts())
	check(t, "complexity of a function", complexityMax, c.complexities)
}

func check(t *testing.T, name string, limit int, figures []figure) {
	t.Helper()
	slices.SortFunc(figures, func(a, b figure) int {
		return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.what, b.what))
	})
	if len(figures) == 0 {
		t.Errorf("%s: nothing was counted", name)
	}
	for i, f := range figures {
		if i < printedMost {
			t.Logf("%s (at most %d): %3d %s", name, limit, f.n, f.what)
		}
		if f.n > max(limit, wide()[f.what]) {
			t.Errorf("%s has %d, more than %d %s: it has two concerns, give each a type or a package of its own", f.what, f.n, limit, name)
		}
	}
}

// code is what the budgets count, in all of our packages and under all build
// tags. Tests count by their functions' complexity only.
type code struct {
	files        map[string]int             // package -> files
	imports      map[string]map[string]bool // package -> packages of ours
	complexities []figure
}

// readImports notes what a file of a package imports of ours.
func (c *code) readImports(pkg string, file *ast.File) {
	for _, folder := range importsOf(file) {
		if c.imports[pkg] == nil {
			c.imports[pkg] = map[string]bool{}
		}
		c.imports[pkg][folder] = true
	}
}

func (c *code) importCounts() []figure {
	var figures []figure
	for pkg, imported := range c.imports {
		figures = append(figures, figure{pkg, len(imported)})
	}
	return figures
}

func (c *code) fileCounts() []figure {
	var figures []figure
	for pkg, n := range c.files {
		if !slices.Contains(registries(), pkg) {
			figures = append(figures, figure{pkg, n})
		}
	}
	return figures
}

// complexity is the number of decisions in a function, those of the functions
// inside of it included, plus one.
func complexity(function *ast.FuncDecl) int {
	n := 1
	ast.Inspect(function, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// importsOf maps the names under which a file knows packages of ours to their
// folders.
func importsOf(file *ast.File) map[string]string {
	names := map[string]string{}
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		folder, ours := strings.CutPrefix(path, module)
		if !ours {
			continue
		}
		name := folder[strings.LastIndex(folder, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = folder
	}
	return names
}
