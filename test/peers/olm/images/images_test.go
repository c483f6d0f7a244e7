// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnArchiveHasAllImagesUnderTheirDigests(t *testing.T) {
	first, second := directory(t, "first"), directory(t, "second")
	sources := []Source{{"example.com/a", first}, {"example.com/b", second}, {"example.com/c", first}}
	archive := filepath.Join(t.TempDir(), "images.tar")
	names, err := Write(archive, sources...)
	if err != nil {
		t.Fatal(err)
	}
	_, digestA, _ := strings.Cut(names[0], "@")
	_, digestC, _ := strings.Cut(names[2], "@")
	if len(names) != 3 || digestA != digestC || !strings.HasPrefix(names[1], "example.com/b@sha256:") {
		t.Errorf("got names %q, want one digest for the same files and another for others", names)
	}
	var index struct {
		Manifests []struct {
			Annotations map[string]string `json:"annotations"`
		} `json:"manifests"`
	}
	if err := json.Unmarshal(file(t, archive, "index.json"), &index); err != nil {
		t.Fatal(err)
	}
	for i, manifest := range index.Manifests {
		if got := manifest.Annotations[nameAnnotation]; got != names[i] {
			t.Errorf("image %d has the name %q, want %q", i, got, names[i])
		}
	}
}

func directory(t *testing.T, content string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func file(t *testing.T, archive, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	reader := tar.NewReader(bytes.NewReader(content))
	for {
		header, err := reader.Next()
		if err != nil {
			t.Fatalf("there is no %s: %v", name, err)
		}
		if header.Name == name {
			found, err := io.ReadAll(reader)
			if err != nil {
				t.Fatal(err)
			}
			return found
		}
	}
}
