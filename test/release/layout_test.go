// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package release

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// descriptor points to a blob of an OCI layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
	Platform    struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// document is an index, which has manifests, or a manifest, which has the rest.
type document struct {
	Manifests []descriptor `json:"manifests"`
	Config    descriptor   `json:"config"`
	Layers    []descriptor `json:"layers"`
}

// layout is a directory with an OCI layout. It is read without the library that
// wrote it.
type layout string

func (l layout) read(t *testing.T, path string) document {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(string(l), path))
	if err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}

func (l layout) blob(d descriptor) string {
	return filepath.Join("blobs", strings.Replace(d.Digest, ":", "/", 1))
}

// images returns the manifests of the image, by architecture.
func (l layout) images(t *testing.T) map[string]document {
	t.Helper()
	images := map[string]document{}
	for _, entry := range l.read(t, "index.json").Manifests {
		if entry.Annotations["org.opencontainers.image.ref.name"] == "" {
			continue // the signature
		}
		for _, manifest := range l.read(t, l.blob(entry)).Manifests {
			images[manifest.Platform.Architecture] = l.read(t, l.blob(manifest))
		}
	}
	return images
}

// files writes the regular files of an image to a directory.
func (l layout) files(t *testing.T, image document, dir string) {
	t.Helper()
	for _, layer := range image.Layers {
		content, err := os.Open(filepath.Join(string(l), l.blob(layer)))
		if err != nil {
			t.Fatal(err)
		}
		unpack(t, content, dir)
		if err := content.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// unpack writes the regular files of a compressed archive to a directory.
func unpack(t *testing.T, archive io.Reader, dir string) {
	t.Helper()
	content, err := gzip.NewReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			write(t, filepath.Join(dir, header.Name), header.FileInfo().Mode(), reader)
		}
	}
}

func write(t *testing.T, path string, mode os.FileMode, content io.Reader) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(file, content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
