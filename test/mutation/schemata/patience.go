// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
)

// Tests wait as long as a busy machine may take, for a constant of this name. With a
// mutant, what they wait for may never come.
const (
	patienceName  = "patience"
	shortPatience = "20*time.Second"
)

// impatient returns the test files of a folder that wait, with an end to their
// patience after shortPatience, by their paths.
func impatient(folder string) (map[string][]byte, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the tests of %s: %w", folder, err)
	}
	changed := map[string][]byte{}
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a test to shorten its patience: %w", err)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parsing a test to shorten its patience: %w", err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if ok && spec.Names[0].Name == patienceName && len(spec.Values) == 1 {
				from, to := fset.Position(spec.Values[0].Pos()).Offset, fset.Position(spec.Values[0].End()).Offset
				changed[path] = []byte(string(source[:from]) + shortPatience + string(source[to:]))
			}
			return true
		})
	}
	return changed, nil
}
