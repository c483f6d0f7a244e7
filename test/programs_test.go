// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"go/ast"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// inputs is why the results of tests that start programs may be kept, or that they
// are not: Go knows the files and variables that a test reads, and not what a program
// reads that it starts.
type inputs string

const (
	// ofAssets is of tests that start what is in KUBEBUILDER_ASSETS, a folder that is
	// named after its content.
	ofAssets inputs = "assets"
	// eachTime is of tests that hack/packages.sh lists as programs: they run each time.
	eachTime inputs = "programs"
	// apart is of tests that run each time, as they have a build tag or a module of
	// their own.
	apart inputs = "apart"
	// noTree is of what starts a program that is none of ours, and reads nothing of
	// the tree.
	noTree inputs = "no tree"
)

// starters lists the folders whose code or tests start programs.
func starters() map[string]inputs {
	return map[string]inputs{
		"hack/charts":                  eachTime, // Helm reads charts, hooks are run
		"hack/gen":                     eachTime, // go list
		"hack/tools/release":           apart,
		"internal/apiserver":           ofAssets,
		"internal/cli/install":         eachTime, // hack/deploy
		"internal/cli/interpret":       noTree,   // the user's editor
		"internal/testing/dedicated":   ofAssets,
		"internal/testing/env":         ofAssets,
		"operators/klusterlet":         ofAssets,
		"test":                         eachTime, // go list, git ls-files
		"test/apis":                    eachTime, // go build
		"test/bench":                   apart,
		"test/checks":                  eachTime, // go list
		"test/differential":            apart,
		"test/docs":                    eachTime, // go list
		"test/e2e":                     apart,
		"test/integration/conformance": eachTime, // go build
		"test/internal/fleet":          apart,    // of bench, fault and conformance
		"test/mutation":                noTree,   // git and go in folders of the test
		"test/mutation/testrun":        noTree,   // sleep
		"test/peers/ocm":               apart,
		"test/peers/olm/harness":       apart,
		"test/release":                 apart,

		"test/integration/conformance/twins": ofAssets, // kubectl
		"test/integration/setup/harness":     ofAssets,
		"test/e2e/harness":                   apart,
		"test/peers/prometheus/harness":      apart,
	}
}

// TestResultsThatAreKeptHaveNoHiddenInputs looks for all that starts programs.
func TestResultsThatAreKeptHaveNoHiddenInputs(t *testing.T) {
	known, listed := starters(), foldersListedAs(t, "programs")
	// They call exec.Command and its like. The lab is a module of its own, and the programs themselves.
	found := map[string]bool{}
	forEachFile(t, func(path string, _ []byte, _ *token.FileSet, file *ast.File) {
		if strings.HasPrefix(path, "test/lab/") {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && startsProgram(selector) {
				found[filepath.Dir(path)] = true
			}
			return true
		})
	})
	for _, folder := range slices.Sorted(maps.Keys(found)) {
		if _, ok := known[folder]; !ok {
			t.Errorf("%s starts programs: say in starters() what its tests depend on, and list it in hack/packages.sh if it is the tree", folder)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(known)) {
		if !found[folder] {
			t.Errorf("%s is in starters() and starts no program", folder)
		}
		if runs := known[folder] == eachTime; runs != listed[folder] {
			t.Errorf("%s: in starters() its tests run each time: %t, in hack/packages.sh: %t", folder, runs, listed[folder])
		}
		delete(listed, folder)
	}
	for folder := range listed {
		t.Errorf("hack/packages.sh lists %s, which starters() does not", folder)
	}
}

// TestShortSkipsOnlyWhatRunsElsewhere keeps tests from being skipped in all parts of the
// checks: without -short run only those that start API servers, those that are listed as
// programs or as large, those apart, and those with a build tag.
func TestShortSkipsOnlyWhatRunsElsewhere(t *testing.T) {
	known, large := starters(), foldersListedAs(t, "large")
	forEachFile(t, func(path string, source []byte, _ *token.FileSet, file *ast.File) {
		folder := filepath.Dir(path)
		if folder == "internal/testing/env" || known[folder] == eachTime || known[folder] == apart || large[folder] || bytes.Contains(source, []byte("\n//go:build ")) {
			return
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if selector, ok := node.(*ast.SelectorExpr); ok && isShort(selector) {
				t.Errorf("%s asks for -short, with which alone its package may run: call env.Need if it needs an API server, list the folder as large in hack/packages.sh if the test is too large for the race detector, and skip nothing otherwise", path)
			}
			return true
		})
	})
}

func isShort(selector *ast.SelectorExpr) bool {
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == "testing" && selector.Sel.Name == "Short"
}

func startsProgram(selector *ast.SelectorExpr) bool {
	of, ok := selector.X.(*ast.Ident)
	return ok && (of.Name == "exec" && strings.HasPrefix(selector.Sel.Name, "Command") || of.Name == "os" && selector.Sel.Name == "StartProcess")
}

// foldersListedAs asks who chooses the packages of the checks.
func foldersListedAs(t *testing.T, kind string) map[string]bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../hack/packages.sh", kind).Output()
	if err != nil {
		t.Fatalf("hack/packages.sh: %v", err)
	}
	listed := map[string]bool{}
	for _, folder := range strings.Fields(string(out)) {
		listed[strings.TrimPrefix(folder, "./")] = true
	}
	return listed
}
