// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Budgets that short functions do not hide: a type with many methods, and a
// package with many files, have two concerns.
const (
	methodsMax    = 25 // of a type, with those that it gets by embedding types of ours
	filesMax      = 15 // of a package, without tests and generated files
	complexityMax = 15 // of a function: its decisions plus one, as McCabe counts (1976)
	printedMost   = 5  // how many of the largest are printed of each
)

// registries are packages with one file for each kind or command: what is in
// one of their files concerns no other.
func registries() []string {
	return []string{}
}

// facades are types that stand for a whole thing in tests, with the methods that they
// may have: what would be taken out of one has no other user.
func facades() map[string]int {
	return map[string]int{
		"test/internal/fleet.Fleet": 26, // a hub with its members, and what may happen to them
	}
}

// figure is one measured thing.
type figure struct {
	what string
	n    int
}

// TestBudgets prints the largest of each and fails on those above the budget.
func TestBudgets(t *testing.T) {
	code := readCode(t)
	check(t, "methods of a type", methodsMax, code.methodCounts())
	check(t, "files of a package", filesMax, code.fileCounts())
	check(t, "complexity of a function", complexityMax, code.complexities)
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
		if f.n > max(limit, facades()[f.what]) {
			t.Errorf("%s has %d, more than %d %s: it has two concerns, give each a type or a package of its own", f.what, f.n, limit, name)
		}
	}
}

// code is what the budgets count, in all of our packages and under all build
// tags. Tests count by their functions' complexity only.
type code struct {
	files        map[string]int      // package -> files
	methods      map[string]int      // package.Type -> methods declared
	embeds       map[string][]string // package.Type -> types of ours that it embeds
	complexities []figure
}

func readCode(t *testing.T) *code {
	t.Helper()
	c := &code{files: map[string]int{}, methods: map[string]int{}, embeds: map[string][]string{}}
	forEachFile(t, func(path string, _ []byte, _ *token.FileSet, file *ast.File) {
		if ast.IsGenerated(file) {
			return
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		isTest := strings.HasSuffix(path, "_test.go")
		if !isTest {
			c.files[pkg]++
		}
		imports := importsOf(file)
		for _, declaration := range file.Decls {
			switch declaration := declaration.(type) {
			case *ast.FuncDecl:
				c.complexities = append(c.complexities, figure{fmt.Sprintf("%s: %s", path, declaration.Name.Name), complexity(declaration)})
				if declaration.Recv != nil && !isTest {
					c.methods[pkg+"."+typeName(declaration.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				if !isTest {
					c.readEmbedded(pkg, imports, declaration)
				}
			}
		}
	})
	return c
}

// readEmbedded notes what the structs of a declaration embed.
func (c *code) readEmbedded(pkg string, imports map[string]string, declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		typeSpec, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		structure, ok := typeSpec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		for _, field := range structure.Fields.List {
			if len(field.Names) > 0 {
				continue
			}
			embedded := pkg + "." + typeName(field.Type)
			if selector, ok := unwrap(field.Type).(*ast.SelectorExpr); ok {
				qualifier, isIdent := selector.X.(*ast.Ident)
				if !isIdent || imports[qualifier.Name] == "" {
					continue // not ours
				}
				embedded = imports[qualifier.Name] + "." + selector.Sel.Name
			}
			outer := pkg + "." + typeSpec.Name.Name
			c.embeds[outer] = append(c.embeds[outer], embedded)
		}
	}
}

// methodCounts counts declared and promoted methods of each type.
func (c *code) methodCounts() []figure {
	var count func(name string, depth int) int
	count = func(name string, depth int) int {
		n := c.methods[name]
		if depth == 0 {
			return n
		}
		for _, embedded := range c.embeds[name] {
			n += count(embedded, depth-1)
		}
		return n
	}
	const depthMax = 5 // of structs embedded in each other; a cycle ends there
	types := map[string]bool{}
	for name := range c.methods {
		types[name] = true
	}
	for name := range c.embeds {
		types[name] = true
	}
	var figures []figure
	for name := range maps.Keys(types) {
		figures = append(figures, figure{name, count(name, depthMax)})
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

// typeName is the name of a type without pointer, parameters and package.
func typeName(expr ast.Expr) string {
	switch expr := unwrap(expr).(type) {
	case *ast.Ident:
		return expr.Name
	case *ast.SelectorExpr:
		return expr.Sel.Name
	default:
		return ""
	}
}

// unwrap takes pointer and type arguments off.
func unwrap(expr ast.Expr) ast.Expr {
	for {
		switch inner := expr.(type) {
		case *ast.StarExpr:
			expr = inner.X
		case *ast.IndexExpr:
			expr = inner.X
		case *ast.IndexListExpr:
			expr = inner.X
		case *ast.ParenExpr:
			expr = inner.X
		default:
			return expr
		}
	}
}
