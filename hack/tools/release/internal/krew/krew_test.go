// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package krew

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestTheManifestNamesEachArchiveWithItsChecksum(t *testing.T) {
	dir := t.TempDir()
	archives := map[string]string{"linux/amd64": filepath.Join(dir, "a.tar.gz"), "windows/arm64": filepath.Join(dir, "b.zip")}
	for _, path := range archives {
		if err := os.WriteFile(path, []byte("hello\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := Write(&out, "1.2.3", "https://example.com/v1.2.3/", []string{"linux/amd64", "windows/arm64"}, archives); err != nil {
		t.Fatal(err)
	}
	var got Plugin
	if err := yaml.UnmarshalStrict(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	const sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
	want := []Platform{
		{Selector{map[string]string{"os": "linux", "arch": "amd64"}}, "https://example.com/v1.2.3/a.tar.gz", sum, "capstan"},
		{Selector{map[string]string{"os": "windows", "arch": "arm64"}}, "https://example.com/v1.2.3/b.zip", sum, "capstan.exe"},
	}
	if diff := cmp.Diff(want, got.Spec.Platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	if got.Spec.Version != "v1.2.3" || got.Metadata.Name != "capstan" {
		t.Errorf("got version %s of %s", got.Spec.Version, got.Metadata.Name)
	}
}

func TestAPlatformWithoutArchitecture(t *testing.T) {
	if err := Write(&bytes.Buffer{}, "1.2.3", "", []string{"linux"}, map[string]string{"linux": "krew.go"}); err == nil {
		t.Error("got no error")
	}
}
