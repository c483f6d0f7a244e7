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
)

// proofs is the table of the fields of ManifestWork and the tests that prove them.
const proofs = "../docs/reference/manifestwork-proof.md"

// proofForm matches a test as the table names it: `folder.TestName`, and in
// italics the name of the case if it is one of several.
const proofForm = "`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`(?: \\*([^*]+)\\*)?"

func TestEveryFieldOfManifestWorkHasATestThatProvesIt(t *testing.T) {
	rows := proofRows(t)
	fields := manifestWorkFields(t)
	for _, field := range fields {
		if _, ok := rows[field]; !ok {
			t.Errorf("%s has no row for %s: name the test that proves what the field promises", proofs, field)
		}
	}
	proof := regexp.MustCompile(proofForm)
	tests := map[string]testFolder{}
	for field, text := range rows {
		if !slices.Contains(fields, field) {
			t.Errorf("%s has a row for %s, which is not a field of ManifestWork", proofs, field)
		}
		named := proof.FindAllStringSubmatch(text, -1)
		if len(named) == 0 {
			t.Errorf("%s: the row of %s names no test as `folder.TestName`", proofs, field)
		}
		for _, match := range named {
			folder, name, one := match[1], match[2], match[3]
			if _, read := tests[folder]; !read {
				tests[folder] = testsOf(t, filepath.Join("..", folder))
			}
			if !slices.Contains(tests[folder].functions, name) {
				t.Errorf("%s: the row of %s names %s, which is not a test in %s", proofs, field, name, folder)
			}
			if one != "" && !slices.Contains(tests[folder].texts, one) {
				t.Errorf("%s: the row of %s names the case %q of %s, which is not in %s", proofs, field, one, name, folder)
			}
		}
	}
}

// proofRows returns the second column of the table by the first.
func proofRows(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(proofs)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		field := strings.Trim(strings.TrimSpace(cells[1]), "`")
		if _, twice := rows[field]; twice {
			t.Errorf("%s has two rows for %s", proofs, field)
		}
		rows[field] = cells[2]
	}
	return rows
}

// manifestWorkFields returns the paths of all fields that have none below them
// but those of Kubernetes' own types.
func manifestWorkFields(t *testing.T) []string {
	t.Helper()
	files, err := config.HubCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range files {
		if crd.Spec.Names.Kind == "ManifestWork" {
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			return slices.Concat(leaves("spec", schema.Properties["spec"]), leaves("status", schema.Properties["status"]))
		}
	}
	t.Fatal("there is no CRD of kind ManifestWork")
	return nil
}

func leaves(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	if schema.Items != nil {
		path, schema = path+"[]", *schema.Items.Schema
	}
	if len(schema.Properties) == 0 || strings.HasSuffix(path, "conditions[]") {
		return []string{strings.TrimSuffix(path, "[]")}
	}
	var paths []string
	for name := range schema.Properties {
		paths = append(paths, leaves(path+"."+name, schema.Properties[name])...)
	}
	slices.Sort(paths)
	return paths
}

// testFolder is what the tests of a folder consist of: functions, and the
// texts in them, of which some are names of cases.
type testFolder struct{ functions, texts []string }

func testsOf(t *testing.T, folder string) testFolder {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("there are no tests in %s: %v", folder, err)
	}
	var found testFolder
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				found.functions = append(found.functions, n.Name.Name)
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
