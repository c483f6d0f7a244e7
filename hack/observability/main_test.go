// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTheFilesAreAsDescribed compares what is committed with what would be made.
func TestTheFilesAreAsDescribed(t *testing.T) {
	const root = "../.."
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(root, target, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not as described; 'make generate-observability' mends it (-described +committed):\n%s", name, diff)
		}
	}
	committed, err := filepath.Glob(filepath.Join(root, target, "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range committed {
		if name := filepath.Join("dashboards", filepath.Base(path)); files[name] == nil {
			t.Errorf("%s has no description in %s/dashboards", name, source)
		}
	}
}
