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

// proofTable is the page that names, for every field and every reason of a
// kind, the tests that prove it.
type proofTable struct {
	kind, page string
	// folder has the types of the kind, and the constants of its reasons, if it has
	// any, whose names begin with reasons. If it is set, the tests that a row names have to use
	// the field or the reason.
	folder, reasons string
	// embedded is a field whose own fields have no rows: they are those of a kind
	// with a table, or of Kubernetes.
	embedded string
	// fields is the page of docs/spec that lists the fields, for a kind without a CRD
	// or with fields of Kubernetes' own types, which the page does not go into.
	fields string
}

func proofTables() []proofTable {
	return []proofTable{
		{kind: "ManifestWork", page: "manifestwork-proof.md"},
		{kind: "Placement", page: "placement-proof.md", folder: "apis/cluster/v1beta1", reasons: "PlacementReason"},
		{
			kind: "ManifestWorkReplicaSet", page: "manifestworkreplicaset-proof.md", folder: "apis/work/v1alpha1", reasons: "Reason",
			embedded: "spec.manifestWorkTemplate",
		},
		{
			kind: "Cluster", page: "cluster-proof.md", folder: "apis/karmada/cluster/v1alpha1", reasons: "ClusterReason",
			fields: "karmada-cluster/cluster.md",
		},
		{
			kind: "ControlPlane", page: "controlplane-proof.md", folder: "apis/fleet/v1alpha1", reasons: "ControlPlaneReason",
			fields: "fleet/controlplane.md", embedded: "spec.placement.affinity",
		},
		{
			kind: "PropagationPolicy", page: "propagation-proof.md", folder: "apis/karmada/policy/v1alpha1", fields: "policy/propagationpolicy.md",
		},
		{
			kind: "ResourceBinding", page: "binding-proof.md", folder: "apis/karmada/work/v1alpha2", fields: "work/resourcebinding.md",
			embedded: "spec.placement",
		},
		{
			kind: "OverridePolicy", page: "override-proof.md", folder: "apis/karmada/policy/v1alpha1", fields: "policy/overridepolicy.md",
			embedded: "spec.overriders",
		},
		{
			kind: "ResourceInterpreterCustomization", page: "customization-proof.md", folder: "apis/karmada/config/v1alpha1",
			fields: "config/resourceinterpretercustomization.md",
		},
		{
			kind: "ResourceInterpreterWebhookConfiguration", page: "interpreterwebhook-proof.md", folder: "apis/karmada/config/v1alpha1",
			fields: "config/resourceinterpreterwebhookconfiguration.md",
		},
		{
			kind: "Work", page: "work-proof.md", folder: "apis/karmada/work/v1alpha1", reasons: "WorkReason",
			fields: "karmada-work/work.md",
		},
	}
}

// proofForm matches a test as the table names it: `folder.TestName`, and in
// italics the name of the case if it is one of several.
const proofForm = "`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`(?: \\*([^*]+)\\*)?"

func TestEveryFieldHasATestThatProvesIt(t *testing.T) {
	read := folders{}
	for _, table := range proofTables() {
		t.Run(table.kind, func(t *testing.T) {
			page := filepath.Join("../docs/reference", table.page)
			rows := proofRows(t, page)
			wanted := slices.Concat(fieldsOf(t, table), reasonsOf(t, table))
			for _, what := range wanted {
				if _, ok := rows[what]; !ok {
					t.Errorf("%s has no row for %s: name the test that proves what it promises", page, what)
				}
			}
			for what, text := range rows {
				if !slices.Contains(wanted, what) {
					t.Errorf("%s has a row for %s, which is neither a field nor a reason of %s", page, what, table.kind)
				}
				checkRow(t, read, row{page: page, what: what, text: text, words: wordsFor(t, table, what)})
			}
		})
	}
}

// row is a row of a page.
type row struct {
	page, what, text string
	// words are those of which its tests have to use one; none if they need not.
	words []string
}

// checkRow checks that the tests of a row exist, and that each of them uses what
// the row is about.
func checkRow(t *testing.T, read folders, r row) {
	t.Helper()
	named := regexp.MustCompile(proofForm).FindAllStringSubmatch(r.text, -1)
	if len(named) == 0 {
		t.Errorf("%s: the row of %s names no test as `folder.TestName`", r.page, r.what)
	}
	for _, match := range named {
		folder, name, one := match[1], match[2], match[3]
		tests := read.tests(t, folder)
		if tests.functions[name] == nil {
			t.Errorf("%s: the row of %s names %s, which is not a test in %s", r.page, r.what, name, folder)
			continue
		}
		if one != "" && !slices.Contains(tests.texts, one) {
			t.Errorf("%s: the row of %s names the case %q of %s, which is not in %s", r.page, r.what, one, name, folder)
		}
		if len(r.words) > 0 && !tests.mention(name, r.words) {
			t.Errorf("%s: %s of %s uses none of %v, so it does not prove %s", r.page, name, folder, r.words, r.what)
		}
	}
}

// wordsFor returns what a test that is about a field or a reason uses: the last
// part of its path, and the names that it has in Go.
func wordsFor(t *testing.T, table proofTable, what string) []string {
	t.Helper()
	if table.folder == "" {
		return nil
	}
	word := strings.TrimSuffix(what[strings.LastIndex(what, ".")+1:], "[]")
	words := []string{word}
	for _, file := range parse(t, filepath.Join("..", table.folder), "*.go") {
		ast.Inspect(file, func(node ast.Node) bool {
			field, ok := node.(*ast.Field)
			if ok && field.Tag != nil && len(field.Names) == 1 && strings.Contains(field.Tag.Value, `json:"`+word) {
				words = append(words, field.Names[0].Name)
			}
			return true
		})
	}
	return words
}

// proofRows returns the second column of the tables of a page by the first.
func proofRows(t *testing.T, page string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(page)
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
			t.Errorf("%s has two rows for %s", page, field)
		}
		rows[field] = cells[2]
	}
	return rows
}

// fieldsOf returns the paths of all fields of a kind that have none below them
// but those of Kubernetes' own types.
func fieldsOf(t *testing.T, table proofTable) []string {
	t.Helper()
	if table.fields != "" {
		return whole(table.embedded, fieldsOnPage(t, filepath.Join("../docs/spec", table.fields)))
	}
	files, err := config.HubCRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range files {
		if crd.Spec.Names.Kind == table.kind {
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			return whole(table.embedded, slices.Concat(leaves("spec", schema.Properties["spec"]), leaves("status", schema.Properties["status"])))
		}
	}
	t.Fatalf("there is no CRD of kind %s", table.kind)
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
func reasonsOf(t *testing.T, table proofTable) []string {
	t.Helper()
	if table.reasons == "" {
		return nil
	}
	var reasons []string
	for _, file := range parse(t, filepath.Join("..", table.folder), "*.go") {
		ast.Inspect(file, func(node ast.Node) bool {
			if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, table.reasons) {
				if value, ok := spec.Values[0].(*ast.BasicLit); ok {
					reasons = append(reasons, strings.Trim(value.Value, `"`))
				}
			}
			return true
		})
	}
	if len(reasons) == 0 {
		t.Errorf("%s has no constant %s…", table.folder, table.reasons)
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

// selectorOfKubernetes tells whether a schema is that of a selector, whose
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

// testFolder is what the tests of a folder consist of: for each function the
// words in it, names and texts; and the texts, of which some are names of cases.
type testFolder struct {
	functions map[string][]string
	texts     []string
}

func testsOf(t *testing.T, folder string) testFolder {
	t.Helper()
	found := testFolder{functions: map[string][]string{}}
	for _, file := range parse(t, folder, "*_test.go") {
		for _, declared := range file.Decls {
			name := "" // what is declared outside of functions
			if function, ok := declared.(*ast.FuncDecl); ok {
				name = function.Name.Name
				found.functions[name] = append(found.functions[name], name)
			}
			ast.Inspect(declared, func(node ast.Node) bool {
				switch n := node.(type) {
				case *ast.Ident:
					found.functions[name] = append(found.functions[name], n.Name)
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); err == nil {
						found.texts = append(found.texts, text)
						found.functions[name] = append(found.functions[name], text)
					}
				}
				return true
			})
		}
	}
	return found
}

// mention tells whether a function, or one of the folder that it uses, has one
// of the words: as a field, in a constant, or in a text. Case does not count.
func (f testFolder) mention(function string, words []string) bool {
	seen, todo := map[string]bool{}, []string{function}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, used := range f.functions[name] {
			if slices.ContainsFunc(words, func(word string) bool {
				return strings.Contains(strings.ToLower(used), strings.ToLower(word))
			}) {
				return true
			}
			if f.functions[used] != nil {
				todo = append(todo, used)
			}
		}
	}
	return false
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
