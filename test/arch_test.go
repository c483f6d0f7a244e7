// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package test keeps the rules that hold for the repository as a whole; see
// docs/ARCHITECTURE.md and docs/CONTRIBUTING.md for their reasons.
package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	module = "github.com/capstan-io/capstan/"

	functionLinesMax  = 80
	reconcileLinesMax = 75
	fileLinesMax      = 400
	parametersMax     = 5
	buildTags         = "e2e,bench,fault" // that some files of ours ask for
	boilerplate       = "// Copyright The Capstan Authors.\n// SPDX-License-Identifier: Apache-2.0\n"
)

// pkg is what these tests need of a package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// imported is a package that another imports.
type imported struct {
	path   string
	byTest bool
}

// layer returns the layer of a package of ours, and the name of its part for
// those layers whose parts must not know each other.
func layer(path string) (level int, part string) {
	segments := strings.Split(path, "/")
	switch {
	case segments[0] == "apis" || segments[0] == "config":
		return 0, ""
	case strings.HasPrefix(path, "internal/testing"):
		return 5, ""
	case strings.HasPrefix(path, "internal/hub/") && len(segments) > 2,
		strings.HasPrefix(path, "internal/agent/"),
		strings.HasPrefix(path, "internal/cli/"):
		return 3, strings.Join(segments[:3], "/")
	case path == "internal/agent", path == "internal/cli", path == "internal/webhook",
		strings.HasPrefix(path, "internal/webhook/"),
		strings.HasPrefix(path, "internal/apiserver"),
		strings.HasPrefix(path, "internal/search"):
		return 3, strings.Join(segments[:2], "/")
	case segments[0] == "operators" && len(segments) > 1:
		return 3, strings.Join(segments[:2], "/")
	case slices.Contains(below(), path):
		return 1, ""
	case strings.HasPrefix(path, "internal/scheduling/"),
		strings.HasPrefix(path, "internal/interpret"),
		strings.HasPrefix(path, "internal/manifestwork/"),
		strings.HasPrefix(path, "internal/propagation/"),
		strings.HasPrefix(path, "internal/cluster/affinity"),
		strings.HasPrefix(path, "internal/cluster/grades"),
		strings.HasPrefix(path, "internal/cluster/view"):
		return 2, ""
	case segments[0] == "internal":
		return 1, ""
	case segments[0] == "cmd" || segments[0] == "hack":
		return 4, ""
	default: // test
		return 5, ""
	}
}

// below are the packages of layer 1 in rooms of layer 2, which they have their name from.
func below() []string {
	return []string{
		"internal/manifestwork/allowance", "internal/manifestwork/allowance/counting", "internal/manifestwork/budget",
		"internal/manifestwork/jsonpath", "internal/propagation/reserved",
	}
}

// family is a folder of layer 3 whose packages are parts of one program.
type family struct {
	root string
	// composers put the parts together, and may import each of them.
	composers []string
	// floor is what the parts have in common. It may import itself only.
	floor []string
}

// families are the agent and the command line: each of their packages is a
// part of its own, and stands on the floor of its family.
func families() []family {
	return []family{
		{
			root:      "internal/agent",
			composers: []string{"internal/agent", "internal/agent/push", "internal/agent/parts"},
			floor:     []string{"compressed", "connect", "nodes", "reportlimit", "succession"},
		},
		{
			root:      "internal/cli",
			composers: []string{"internal/cli"},
			floor: []string{
				"access", "args", "clusterinfo", "columns", "complete", "discovery", "dryrun", "exit", "fleet", "health", "hub",
				"install", "interpreters", "member", "output", "progress", "requests", "takeover",
			},
		},
	}
}

// mayImport reports whether one part of layer 3 may import another.
func mayImport(from, to string) bool {
	if mayRender(from, to) {
		return true
	}
	for _, f := range families() {
		inside := func(path string) bool { return strings.HasPrefix(path, f.root+"/") }
		if !inside(to) || from != f.root && !inside(from) {
			continue
		}
		if slices.Contains(f.composers, from) {
			return true
		}
		part := func(path string) string { return strings.Split(strings.TrimPrefix(path, f.root+"/"), "/")[0] }
		return slices.Contains(f.floor, part(to))
	}
	return false
}

func TestImportsPointDownwards(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		fromLevel, fromPart := layer(from)
		var all []imported
		for _, path := range p.Imports {
			all = append(all, imported{path: path})
		}
		for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
			all = append(all, imported{path: path, byTest: true})
		}
		for _, imported := range all {
			to, ours := strings.CutPrefix(imported.path, module)
			if !ours || imported.byTest && mayPrepare(to) {
				continue
			}
			toLevel, toPart := layer(to)
			switch {
			case toLevel > fromLevel:
				t.Errorf("%s (layer %d) imports %s (layer %d): imports point down only. Move what is shared into a package of layer %d or below",
					from, fromLevel, to, toLevel, fromLevel)
			case toLevel == 3 && fromLevel == 3 && toPart != fromPart && !mayImport(from, to):
				t.Errorf("%s imports %s: parts of layer 3 meet through API objects only. Move what is shared into a package of internal (layer 1), or onto the floor of its family",
					from, to)
			}
		}
	}
}

// mayPrepare reports whether a test of any part may import a package, to put what
// the part meets into a cluster: the test vocabulary, and pure builders.
func mayPrepare(to string) bool {
	return strings.HasPrefix(to, "internal/testing") || strings.HasSuffix(to, "/manifests") || strings.HasSuffix(to, "/grants")
}

// mayRender reports whether the CLI imports what an operator renders, so that
// its dry run prints what the operator applies.
func mayRender(from, to string) bool {
	return strings.HasPrefix(from, "internal/cli") && strings.HasPrefix(to, "operators/") && strings.HasSuffix(to, "/manifests")
}

// fleetClient is the generated client of our own group, which only who imports it
// links: no types do.
const fleetClient = module + "apis/fleet/client"

func TestAPIsNeedKubernetesTypesOnly(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, module+"apis/") || strings.HasPrefix(p.ImportPath, fleetClient) {
			continue
		}
		for _, imported := range p.Imports {
			if !strings.Contains(strings.Split(imported, "/")[0], ".") || // the standard library
				strings.HasPrefix(imported, "k8s.io/api/") || strings.HasPrefix(imported, "k8s.io/apimachinery/") ||
				strings.HasPrefix(imported, module+"apis/") && !strings.HasPrefix(imported, fleetClient) {
				continue
			}
			t.Errorf("%s imports %s: apis are for others to import, so they need k8s.io/api and k8s.io/apimachinery only", p.ImportPath, imported)
		}
	}
}

// serverless returns the packages of k8s.io/apiserver that have no server: those with
// the functions which expressions in Kubernetes may use, with what these need, and the
// one that knows what a request is about.
func serverless() []string {
	return []string{
		"k8s.io/apiserver/pkg/cel/library",
		"k8s.io/apiserver/pkg/cel",
		"k8s.io/apiserver/pkg/apis/cel",
		"k8s.io/apiserver/pkg/authentication/serviceaccount",
		"k8s.io/apiserver/pkg/authentication/user",
		"k8s.io/apiserver/pkg/authorization/authorizer",
		"k8s.io/apiserver/pkg/endpoints/request",
	}
}

// TestManagerLinksNoAPIServer keeps the server out of every agent: it doubles
// their size. The CEL library of the same module adds 1 % (ADR 10).
func TestManagerLinksNoAPIServer(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != module+"cmd/capstan-manager" {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, "k8s.io/apiserver/") && !slices.Contains(serverless(), dep) {
				t.Errorf("capstan-manager links %s: it doubles the size of every agent. Find who imports it with 'go mod why %s'", dep, dep)
			}
		}
	}
}

// TestCommandLineLinksNoController keeps capstan, which every user downloads
// and starts many times, from growing into a second manager: it has clients
// and printers, but neither controllers nor caches, and no server.
func TestCommandLineLinksNoController(t *testing.T) {
	found := false
	for _, p := range packages(t) {
		if p.ImportPath != module+"cmd/capstan" {
			continue
		}
		found = true
		for _, dep := range p.Deps {
			if slices.Contains(serverless(), dep) {
				continue // explanations evaluate the same expressions as the hub
			}
			for _, heavy := range []string{
				"k8s.io/apiserver/", "k8s.io/kubectl/", "sigs.k8s.io/controller-runtime/pkg/manager/",
				"sigs.k8s.io/controller-runtime/pkg/cache/internal",
				module + "internal/hub/", module + "internal/agent/", module + "internal/webhook/",
			} {
				if strings.HasPrefix(dep+"/", heavy) {
					t.Errorf("capstan links %s: it asks hubs and runs no part of one. Find who imports it with 'go mod why %s'", dep, dep)
				}
			}
		}
	}
	if !found {
		t.Error("there is no cmd/capstan")
	}
}

// TestOnePackageParsesJSONPaths keeps the parser of kubectl behind the bound of
// internal/manifestwork/jsonpath: a long text overflows its stack, which ends the process. Tests parse
// their own paths.
func TestOnePackageParsesJSONPaths(t *testing.T) {
	const parser, owner = "k8s.io/client-go/util/jsonpath", module + "internal/manifestwork/jsonpath"
	found := false
	for _, p := range packages(t) {
		switch {
		case !slices.Contains(p.Imports, parser):
		case p.ImportPath == owner:
			found = true
		default:
			t.Errorf("%s imports %s: use jsonpath.ParseTemplate of %s, which bounds what it parses", p.ImportPath, parser, owner)
		}
	}
	if !found {
		t.Errorf("%s does not import %s", owner, parser)
	}
}

// TestWebhooksCompareNoObjects keeps who writes JSON patches of objects to what
// internal/webhook/patch knows of them. To compare an object as it was with the object as it
// is takes as much as its author likes. Tests may compare what they have written.
func TestWebhooksCompareNoObjects(t *testing.T) {
	const library, owner = "gomodules.xyz/jsonpatch/v2", module + "internal/webhook/patch"
	found := false
	for _, p := range packages(t) {
		switch {
		case !slices.Contains(p.Imports, library):
		case p.ImportPath == owner:
			found = true
		default:
			t.Errorf("%s imports %s: use %s, which compares nothing", p.ImportPath, library, owner)
		}
	}
	if !found {
		t.Errorf("%s does not import %s", owner, library)
	}
	forEachFile(t, func(path string, _ []byte, fset *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, is := node.(*ast.SelectorExpr)
			if is && slices.Contains([]string{"PatchResponseFromRaw", "CreatePatch"}, call.Sel.Name) {
				t.Errorf("%s: %s compares whole objects: say with %s what changes", fset.Position(call.Pos()), call.Sel.Name, owner)
			}
			return true
		})
	})
}

func TestPackagesAreNamedAfterWhatTheyOwn(t *testing.T) {
	for _, p := range packages(t) {
		for segment := range strings.SplitSeq(strings.TrimPrefix(p.ImportPath, module), "/") {
			if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "lib"}, segment) {
				t.Errorf("%s: name the package after the noun it owns", p.ImportPath)
			}
		}
	}
}

func TestFilesAndFunctionsFitOnAScreen(t *testing.T) {
	forEachFile(t, func(path string, source []byte, fset *token.FileSet, file *ast.File) {
		// controller-gen puts the build constraint in front of the lines.
		if !ast.IsGenerated(file) && !strings.HasPrefix(string(source), boilerplate) {
			t.Errorf("%s: must begin with the lines of hack/boilerplate.go.txt", path)
		}
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if lines := bytes.Count(source, []byte("\n")); lines > fileLinesMax && !ast.IsGenerated(file) && !strings.HasPrefix(path, "apis/") {
			t.Errorf("%s has %d lines, more than %d: split it by concern", path, lines, fileLinesMax)
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || ast.IsGenerated(file) {
				continue
			}
			checkFunction(t, path, fset, function)
		}
	})
}

func checkFunction(t *testing.T, path string, fset *token.FileSet, function *ast.FuncDecl) {
	t.Helper()
	name := function.Name.Name
	lines := fset.Position(function.End()).Line - fset.Position(function.Pos()).Line + 1
	limit := functionLinesMax
	if name == "Reconcile" {
		limit = reconcileLinesMax
	}
	if lines > limit {
		t.Errorf("%s: %s has %d lines, more than %d: name its parts and make them functions", path, name, lines, limit)
	}
	if name == "init" {
		t.Errorf("%s: init functions hide what happens at start; build what is needed in a constructor", path)
	}
	if !strings.HasPrefix(name, "New") && !strings.HasPrefix(name, "new") {
		return
	}
	parameters := 0
	for _, field := range function.Type.Params.List {
		parameters += max(1, len(field.Names))
	}
	if parameters > parametersMax {
		t.Errorf("%s: %s takes %d parameters, more than %d: take a struct", path, name, parameters, parametersMax)
	}
}

func TestTestVocabularyStaysInTests(t *testing.T) {
	for _, p := range packages(t) {
		if strings.HasPrefix(p.ImportPath, module+"internal/testing") || strings.HasPrefix(p.ImportPath, module+"test") {
			continue
		}
		for _, imported := range p.Imports {
			if strings.HasPrefix(imported, module+"internal/testing") {
				t.Errorf("%s imports %s outside of its tests", p.ImportPath, imported)
			}
		}
	}
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps=false", "-tags="+buildTags, "-json=ImportPath,Imports,TestImports,XTestImports,Deps", module+"...").Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list: %v\n%s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var list []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("decoding what go list says: %v", err)
		}
		list = append(list, p)
	}
	if len(list) == 0 {
		t.Fatal("go list found no package")
	}
	return list
}

func forEachFile(t *testing.T, check func(path string, source []byte, fset *token.FileSet, file *ast.File)) {
	t.Helper()
	root := ".."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, source, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		check(relative, source, fset, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
