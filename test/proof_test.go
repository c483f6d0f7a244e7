// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/test/internal/proof"
)

func TestEveryFieldHasATestThatProvesIt(t *testing.T) {
	read := folders{}
	for _, table := range proof.Tables() {
		t.Run(table.Kind, func(t *testing.T) {
			rows, err := proof.Read("..", table)
			if err != nil {
				t.Fatal(err)
			}
			wanted, found := slices.Concat(fieldsOf(t, table), reasonsOf(t, table)), map[string]bool{}
			for _, row := range rows {
				if !slices.Contains(wanted, row.What) {
					t.Errorf("%s has a row for %s, which is neither a field nor a reason of %s", table.Path(), row.What, table.Kind)
				}
				if found[row.What] {
					t.Errorf("%s has two rows for %s", table.Path(), row.What)
				}
				found[row.What] = true
				page, tests := row.Table.Path(), row.Tests()
				if len(tests) == 0 {
					t.Errorf("%s: the row of %s names no test as `folder.TestName`", page, row.What)
				}
				for _, test := range tests {
					declared := read.tests(t, test.Folder)
					if !declared.names[test.Name] {
						t.Errorf("%s: the row of %s names %s, which is not a test in %s", page, row.What, test.Name, test.Folder)
						continue
					}
					if test.Case != "" && !slices.Contains(declared.texts, test.Case) {
						t.Errorf("%s: the row of %s names the case %q of %s, which is not in %s", page, row.What, test.Case, test.Name, test.Folder)
					}
				}
			}
			for _, what := range wanted {
				if !found[what] {
					t.Errorf("%s has no row for %s: name the test that proves what it promises", table.Path(), what)
				}
			}
		})
	}
}

// fieldsOf returns the paths of all fields of a kind that have none below them
// but those of Kubernetes' own types.
func fieldsOf(t *testing.T, table proof.Table) []string {
	t.Helper()
	if table.Fields != "" {
		return whole(table.Embedded, fieldsOnPage(t, filepath.Join("../docs/spec", table.Fields)))
	}
	files, err := config.HubCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range files {
		if crd.Spec.Names.Kind == table.Kind {
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			return whole(table.Embedded, slices.Concat(leaves("spec", schema.Properties["spec"]), leaves("status", schema.Properties["status"])))
		}
	}
	t.Fatalf("there is no CRD of kind %s", table.Kind)
	return nil
}

// whole returns the paths with those below the field replaced by the field, once.
func whole(field string, paths []string) []string {
	for i := range paths {
		if field != "" && strings.HasPrefix(paths[i], field+".") {
			paths[i] = field
		}
	}
	return slices.Compact(paths)
}

// fieldsOnPage returns the fields on a page of docs/spec, which is compared with
// the types where it is written, without those that have others below them.
func fieldsOnPage(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, match := range regexp.MustCompile("(?m)^\\| `((?:spec|status|webhooks)[^`]*)` \\|").FindAllStringSubmatch(string(text), -1) {
		all = append(all, match[1])
	}
	return slices.DeleteFunc(slices.Clone(all), func(field string) bool {
		return slices.ContainsFunc(all, func(other string) bool {
			return strings.HasPrefix(other, field+".") || strings.HasPrefix(other, field+"[].")
		})
	})
}

// reasonsOf returns the reasons of the conditions of a kind.
func reasonsOf(t *testing.T, table proof.Table) []string {
	t.Helper()
	if table.Reasons == "" {
		return nil
	}
	var reasons []string
	for _, file := range parse(t, filepath.Join("..", table.Folder), "*.go") {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, table.Reasons) {
				if value, ok := spec.Values[0].(*ast.BasicLit); ok {
					reasons = append(reasons, strings.Trim(value.Value, `"`))
				}
			}
			return true
		})
	}
	if len(reasons) == 0 {
		t.Errorf("%s has no constant %s…", table.Folder, table.Reasons)
	}
	return reasons
}

func leaves(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	if schema.Items != nil {
		path, schema = path+"[]", *schema.Items.Schema
	}
	if len(schema.Properties) == 0 || strings.HasSuffix(path, "conditions[]") || selectorOfKubernetes(schema) {
		return []string{strings.TrimSuffix(path, "[]")}
	}
	var paths []string
	for name := range schema.Properties {
		paths = append(paths, leaves(path+"."+name, schema.Properties[name])...)
	}
	slices.Sort(paths)
	return paths
}

// selectorOfKubernetes reports whether a schema is that of a selector, whose
// fields Kubernetes gives their meaning.
func selectorOfKubernetes(schema apiextensionsv1.JSONSchemaProps) bool {
	_, selects := schema.Properties["matchExpressions"]
	return selects
}

// folders are the tests that were read already, by their folder.
type folders map[string]testFolder

func (f folders) tests(t *testing.T, folder string) testFolder {
	t.Helper()
	if _, read := f[folder]; !read {
		f[folder] = testsOf(t, filepath.Join("..", folder))
	}
	return f[folder]
}

// testFolder is what the tests of a folder consist of: the names of its functions,
// and the texts in it, of which some are names of cases.
type testFolder struct {
	names map[string]bool
	texts []string
}

func testsOf(t *testing.T, folder string) testFolder {
	t.Helper()
	found := testFolder{names: map[string]bool{}}
	for _, file := range parse(t, folder, "*_test.go") {
		ast.Inspect(file, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				found.names[n.Name.Name] = true
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil {
					found.texts = append(found.texts, text)
				}
			}
			return true
		})
	}
	return found
}

// parse parses the Go files of a folder whose names match.
func parse(t *testing.T, folder, pattern string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(paths) == 0 {
		t.Errorf("there are no files %s in %s: %v", pattern, folder, err)
	}
	files := make([]*ast.File, 0, len(paths))
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
