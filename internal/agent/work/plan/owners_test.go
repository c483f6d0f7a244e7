// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writersOfParts are the packages that may write to the parts of an item, by the names that the parts have
// there. This package makes them all.
func writersOfParts() map[string][]string {
	return map[string][]string{
		"Desired": {}, "want": {},
		"History": {"deliver"}, "history": {"deliver"},
		"Outcome": {"deliver"}, "outcome": {"deliver"},
		"Observation": {"observe"}, "Reading": {"observe"},
	}
}

// TestEveryPartOfAnItemHasOneWriter looks at all assignments in the packages of works, but for tests.
func TestEveryPartOfAnItemHasOneWriter(t *testing.T) {
	writers := writersOfParts()
	written := map[string]bool{}
	for _, path := range filesOutsidePlan(t) {
		where := filepath.Base(filepath.Dir(path))
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, target := range assignedFields(file) {
			for _, name := range namesOn(target) {
				allowed, isPart := writers[name]
				if isPart && !slices.Contains(allowed, where) {
					t.Errorf("%s: package %s writes to %s, which is not its part of an item", fset.Position(target.Pos()), where, name)
				}
				written[name] = written[name] || isPart
			}
		}
	}
	if !written["history"] || !written["outcome"] || !written["Reading"] {
		t.Errorf("only assignments to %v were found: the names of the parts have changed", written)
	}
}

// filesOutsidePlan returns the files of the packages of works, but for those of this one and tests.
func filesOutsidePlan(t *testing.T) (files []string) {
	t.Helper()
	for _, pattern := range []string{"../*/*.go", "../*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s matches %d files: %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	return slices.DeleteFunc(files, func(path string) bool {
		return strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "plan"
	})
}

// assignedFields returns the fields that a file assigns to.
func assignedFields(file *ast.File) (targets []*ast.SelectorExpr) {
	add := func(target ast.Expr) {
		if field, is := target.(*ast.SelectorExpr); is {
			targets = append(targets, field)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			for _, target := range n.Lhs {
				add(target)
			}
		case *ast.IncDecStmt:
			add(n.X)
		}
		return true
	})
	return targets
}

// namesOn returns the names on the way to what is assigned: a.b.c has all three. The first one counts
// if something of it is assigned, and so does a part that is assigned as a whole.
func namesOn(target *ast.SelectorExpr) (names []string) {
	var at ast.Expr = target
	for {
		switch e := at.(type) {
		case *ast.SelectorExpr:
			names = append(names, e.Sel.Name)
			at = e.X
			continue
		case *ast.Ident:
			names = append(names, e.Name)
		}
		return names
	}
}
