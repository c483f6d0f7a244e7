// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestAnImageHasTheExecutableAndFilesAndIsTheSameEachTime(t *testing.T) {
	dir := t.TempDir()
	binary, extra := filepath.Join(dir, "app"), filepath.Join(dir, "extra")
	if err := os.WriteFile(binary, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(extra, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	spec := Spec{Binary: binary, References: []string{"test/app:1"}, Files: []File{{Source: extra, Target: "/etc/extra"}}}
	img := write(t, spec)

	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/app" {
		t.Errorf("entrypoint is %q", got)
	}
	if got := config.Config.User; got != "65532:65532" {
		t.Errorf("user is %q", got)
	}
	want := map[string]int64{"tmp/": 0o1777, "app": 0o755, "etc/": 0o755, "etc/extra": 0o644}
	for name, header := range headers(t, img) {
		if want[name] != header.Mode {
			t.Errorf("%s has mode %o, want %o", name, header.Mode, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("files are missing: %v", want)
	}

	first, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	second, err := write(t, spec).Digest()
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("the same input gives %s and %s", first, second)
	}
}

func TestLinksGiveTheExecutableFurtherNames(t *testing.T) {
	img := write(t, Spec{
		Binary:       newBinary(t),
		References:   []string{"test/app:1"},
		Links:        []string{"/other", "usr/bin/third"},
		NoEntrypoint: true,
	})
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got := config.Config.Entrypoint; len(got) != 0 {
		t.Errorf("entrypoint is %q, want none", got)
	}
	headers := headers(t, img)
	for _, link := range []string{"other", "usr/bin/third"} {
		if header := headers[link]; header == nil || header.Typeflag != tar.TypeSymlink || header.Linkname != "/app" {
			t.Errorf("%s is %+v, want a link to /app", link, header)
		}
	}
}

func TestAPathIsTakenOnce(t *testing.T) {
	binary := newBinary(t)
	for name, spec := range map[string]Spec{
		"link over the executable": {Links: []string{"app"}},
		"link given twice":         {Links: []string{"/other", "other"}},
		"file over a directory":    {Files: []File{{Source: binary, Target: "/tmp"}}},
		"link over a file":         {Files: []File{{Source: binary, Target: "/other"}}, Links: []string{"other"}},
		"link over the root":       {Links: []string{"/"}},
	} {
		t.Run(name, func(t *testing.T) {
			spec.Binary, spec.References = binary, []string{"test/app:1"}
			if err := Write(spec, filepath.Join(t.TempDir(), "image.tar")); err == nil {
				t.Error("got no error")
			}
		})
	}
}

func TestFilesAreGivenAsSourceAndAbsoluteTarget(t *testing.T) {
	if got, err := ParseFile("a/b:/c/../d"); err != nil || got != (File{Source: "a/b", Target: "/d"}) {
		t.Errorf("got %v (%v)", got, err)
	}
	for _, s := range []string{"", "a", "a:", ":/b", "a:b"} {
		if got, err := ParseFile(s); err == nil {
			t.Errorf("%q gives %v, want an error", s, got)
		}
	}
}

func write(t *testing.T, spec Spec) v1.Image {
	t.Helper()
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(spec, archive); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(archive, nil)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func newBinary(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "app")
	if err := os.WriteFile(binary, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	return binary
}

// headers returns what an image with one layer has, by path.
func headers(t *testing.T, img v1.Image) map[string]*tar.Header {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = content.Close() }()
	headers := map[string]*tar.Header{}
	reader := tar.NewReader(content)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers[header.Name] = header
	}
}

func TestAnImageHasAllItsNames(t *testing.T) {
	dir := t.TempDir()
	binary, output := filepath.Join(dir, "app"), filepath.Join(dir, "app.tar")
	if err := os.WriteFile(binary, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	names := []string{"test/app:1", "registry.test/other:v2"}
	if err := Write(Spec{Binary: binary, References: names}, output); err != nil {
		t.Fatal(err)
	}
	var digests []v1.Hash
	for _, reference := range names {
		tag, err := name.NewTag(reference)
		if err != nil {
			t.Fatal(err)
		}
		img, err := tarball.ImageFromPath(output, &tag)
		if err != nil {
			t.Fatal(err)
		}
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("the names stand for %s and %s", digests[0], digests[1])
	}
}
