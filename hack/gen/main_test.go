// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/env"
)

const root = "../.."

func TestFilesAreAsTheirGeneratorsMakeThem(t *testing.T) {
	for _, g := range generators() {
		t.Run(g.name, func(t *testing.T) {
			if g.name == "metrics" {
				env.Need(t)
			}
			files, err := g.generate(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			if len(files) == 0 {
				t.Fatal("it makes no file")
			}
			for path, want := range files {
				got, err := os.ReadFile(filepath.Join(root, path))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, string(got)); diff != "" {
					t.Errorf("%s is not as the code is; 'make generate' mends it (-code +file):\n%s", path, diff)
				}
			}
		})
	}
}

func TestTheCommandWritesWhatIsAskedFor(t *testing.T) {
	const page = "docs/reference/cli.md"
	there := t.TempDir()
	if err := os.MkdirAll(filepath.Join(there, filepath.Dir(page)), 0o750); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := runCommand(t.Context(), []string{"-root", there, "cli"}, &said); err != nil {
		t.Fatal(err)
	}
	wrote, err := os.ReadFile(filepath.Join(there, page))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(wrote)); diff != "" || said.Len() > 0 {
		t.Errorf("it said %q, and wrote (-committed +written):\n%s", said.String(), diff)
	}
}

func TestTheCommandListsWhatThereIs(t *testing.T) {
	var said bytes.Buffer
	if err := runCommand(t.Context(), nil, &said); err != nil {
		t.Fatal(err)
	}
	for _, g := range generators() {
		if !strings.Contains(said.String(), g.name) || !strings.Contains(said.String(), g.what) {
			t.Errorf("it does not list %s, which makes %s:\n%s", g.name, g.what, said.String())
		}
	}
	err := runCommand(t.Context(), []string{"nothing"}, &said)
	if err == nil || !strings.Contains(err.Error(), `there is no generator "nothing"`) {
		t.Errorf("asked for what there is not, it says: %v", err)
	}
}

func TestAPageWithoutAPlaceIsLeftAlone(t *testing.T) {
	there := t.TempDir()
	if err := os.WriteFile(filepath.Join(there, "page.md"), []byte("begin\nold\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := generatedPart{begin: "begin\n", end: "end\n"}.replaceIn(there, "page.md", "new\n")
	if err == nil || !strings.Contains(err.Error(), "page.md has no place for it") {
		t.Errorf("got the error %v", err)
	}
}
