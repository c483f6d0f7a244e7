// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// trackedBytesMax is how large a file may be that is committed: an executable that go
// build leaves in the tree is larger.
const trackedBytesMax = 1 << 20

// TestTrackedFilesAreTexts reads all files that are committed, or will be.
func TestTrackedFilesAreTexts(t *testing.T) {
	listed, err := exec.CommandContext(t.Context(), "git", "-C", "..", "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v: this test needs git, and a checkout", err)
	}
	checked := 0
	for path := range strings.SplitSeq(strings.TrimSuffix(string(listed), "\x00"), "\x00") {
		content, err := os.ReadFile(filepath.Join("..", path))
		if os.IsNotExist(err) {
			continue // it is removed, which is not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		checked++
		if problem := whyNotTracked(path, content); problem != "" {
			t.Errorf("%s %s: remove it with git rm --cached, and list in .gitignore what is built", path, problem)
		}
	}
	if checked == 0 {
		t.Error("git ls-files lists no file")
	}
}

// whyNotTracked says why a file may not be committed, or nothing. Tests may need inputs that
// are not texts.
func whyNotTracked(path string, content []byte) string {
	isInput := slices.Contains(strings.Split(path, "/"), "testdata")
	switch {
	case len(content) > trackedBytesMax:
		return fmt.Sprintf("has %d bytes, more than %d", len(content), trackedBytesMax)
	case !isInput && (bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content)):
		return "is not a text"
	default:
		return ""
	}
}

func TestWhatMayBeTracked(t *testing.T) {
	large := bytes.Repeat([]byte("x"), trackedBytesMax+1)
	for name, c := range map[string]struct {
		path    string
		content []byte
		want    string
	}{
		"a text":                      {"docs/a.md", []byte("häuser\n"), ""},
		"nothing":                     {"docs/a.md", nil, ""},
		"an executable":               {"capstan", []byte("\x7fELF\x02\x00"), "is not a text"},
		"another encoding":            {"docs/a.md", []byte("h\xe4user\n"), "is not a text"},
		"an input of a test":          {"internal/a/testdata/b/c.gz", []byte("\x1f\x8b\x00"), ""},
		"a folder that is only named": {"internal/a/testdata.go", []byte{0}, "is not a text"},
		"the largest text":            {"docs/a.md", large[:trackedBytesMax], ""},
		"a text that is too large":    {"docs/a.md", large, "has 1048577 bytes, more than 1048576"},
		"an input that is too large":  {"internal/a/testdata/b", large, "has 1048577 bytes, more than 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := whyNotTracked(c.path, c.content); got != c.want {
				t.Errorf("%s %q, want %q", c.path, got, c.want)
			}
		})
	}
}
