// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	observability = "../../docs/observability.md"
	eventsPage    = "../../docs/reference/events.md"
	karmadaEvents = "../../docs/reference/karmada-events.md"
)

// code is what we ship, parsed.
type code struct {
	fset  *token.FileSet
	files map[string]*ast.File
	// constants are the values of all constants that are strings, by name.
	constants map[string][]string
}

func readCode(t *testing.T) *code {
	t.Helper()
	c := &code{fset: token.NewFileSet(), files: map[string]*ast.File{}, constants: map[string][]string{}}
	for _, root := range []string{"apis", "cmd", "internal", "operators"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			c.files[path], err = parser.ParseFile(c.fset, path, nil, parser.SkipObjectResolution)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range c.files {
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if i < len(spec.Values) {
					if value, ok := text(spec.Values[i]); ok {
						c.constants[name.Name] = append(c.constants[name.Name], value)
					}
				}
			}
			return true
		})
	}
	return c
}

// text returns the value of a string literal.
func text(e ast.Expr) (string, bool) {
	literal, ok := e.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return "", false
	}
	value, err := strconv.Unquote(literal.Value)
	return value, err == nil
}

// calls calls visit for every call of a method.
func (c *code) calls(visit func(at string, receiver ast.Expr, method string, call *ast.CallExpr)) {
	for _, file := range c.files {
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok {
				return true
			}
			if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
				visit(c.fset.Position(call.Pos()).String(), selector.X, selector.Sel.Name, call)
			}
			return true
		})
	}
}

// isLogger reports whether an expression looks like a logger of ours.
func isLogger(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"l", "log", "logger", "Log"}, e.Name)
	case *ast.SelectorExpr:
		return slices.Contains([]string{"log", "Log", "Logger"}, e.Sel.Name)
	case *ast.CallExpr:
		selector, ok := e.Fun.(*ast.SelectorExpr)
		return ok && slices.Contains([]string{"V", "FromContext", "GetLogger", "WithName", "WithValues"}, selector.Sel.Name)
	}
	return false
}

// rows returns what the first column of the tables of a page has in backquotes.
func rows(t *testing.T, path, heading string) []string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(content), heading)
	if !found {
		t.Fatalf("%s has no %q", path, heading)
	}
	var names []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "###") {
			break
		}
		if strings.HasPrefix(line, "| `") {
			first, _, _ := strings.Cut(line[2:], " |")
			for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(first, -1) {
				names = append(names, match[1])
			}
		}
	}
	return names
}

// TestLogsAreAsDocumented compares the levels and the keys of what we log with
// docs/observability.md.
func TestLogsAreAsDocumented(t *testing.T) {
	levels, keys := rows(t, observability, "### Levels\n"), rows(t, observability, "### Keys\n")
	used := map[string]bool{}
	documented := func(at, what, name string, known []string) {
		used[what+" "+name] = true
		if !slices.Contains(known, name) {
			t.Errorf("%s: %s %s is not in %s: use one that is, or say there what it means", at, what, name, observability)
		}
	}
	readCode(t).calls(func(at string, receiver ast.Expr, method string, call *ast.CallExpr) {
		if method == "V" && isLogger(receiver) {
			if level, ok := call.Args[0].(*ast.BasicLit); ok {
				documented(at, "level", level.Value, levels)
			}
			return
		}
		first, logs := map[string]int{"Info": 1, "Error": 2, "WithValues": 0}[method], method == "Info" || method == "Error" || method == "WithValues"
		if !logs || !isLogger(receiver) {
			return
		}
		used["level 0"] = true
		for i := first; i < len(call.Args); i += 2 {
			if key, ok := text(call.Args[i]); ok {
				documented(at, "key", key, keys)
			}
		}
	})
	for what, names := range map[string][]string{"level": levels[:2], "key": keys} {
		for _, name := range names {
			if !used[what+" "+name] {
				t.Errorf("%s has %s %s, which nothing uses", observability, what, name)
			}
		}
	}
}

// TestEventsAreAsDocumented compares the reasons that are named where events are
// recorded with docs/reference/events.md.
func TestEventsAreAsDocumented(t *testing.T) {
	known := append(rows(t, eventsPage, "# Events\n"), rows(t, karmadaEvents, "# Karmada's Events\n")...)
	c := readCode(t)
	said := 0
	expect := func(at, reason string) {
		said++
		if !slices.Contains(known, reason) {
			t.Errorf("%s: the reason %s of an event is not in %s", at, reason, eventsPage)
		}
	}
	c.calls(func(at string, _ ast.Expr, method string, call *ast.CallExpr) {
		if method != "Eventf" || len(call.Args) < 6 {
			return
		}
		switch reason := call.Args[3].(type) {
		case *ast.BasicLit:
			value, _ := text(reason)
			expect(at, value)
		case *ast.Ident:
			for _, value := range c.constants[reason.Name] {
				expect(at, value)
			}
		case *ast.SelectorExpr: // that of a condition is none of these
			for _, value := range c.constants[reason.Sel.Name] {
				expect(at, value)
			}
		}
	})
	// Those of requests for certificates come out of a decision.
	for path, file := range c.files {
		if !strings.HasSuffix(path, "internal/registration/policy/policy.go") {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Reason") {
				for _, value := range c.constants[spec.Names[0].Name] {
					expect(path, value)
				}
			}
			return true
		})
	}
	if said == 0 {
		t.Error("no event was found: the test looks for the wrong calls")
	}
}
