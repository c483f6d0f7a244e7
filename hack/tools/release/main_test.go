// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-io/capstan/hack/tools/release/internal/ociimage"
)

// made is a release of small files.
type made struct{ dir, layout, key, public string }

// newRelease makes a release as release.mk does, of executables in a directory of
// its own.
func newRelease(t *testing.T, keys string) made {
	t.Helper()
	return newReleaseOf(t, keys, "abc")
}

func newReleaseOf(t *testing.T, keys, commit string) made {
	t.Helper()
	source, dir := t.TempDir(), t.TempDir()
	r := made{dir: dir, layout: filepath.Join(dir, "image")}
	for _, path := range []string{"amd64/manager", "amd64/apiserver", "arm64/manager", "arm64/apiserver", "LICENSE"} {
		full := filepath.Join(source, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o750), os.WriteFile(full, []byte(path), 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	if keys != "" {
		r.key, r.public = filepath.Join(keys, "cosign.key"), filepath.Join(keys, "cosign.pub")
	}
	call(t, "image", "-ref", "registry.test/capstan:1.2.3", "-version", "1.2.3", "-commit", commit, "-license", filepath.Join(source, "LICENSE"),
		"-layout", r.layout, "-archive", filepath.Join(dir, "image.oci.tar"), "-docker", filepath.Join(dir, "image-"), "-digest", filepath.Join(dir, "image-digest.txt"),
		"-program", "manager", "-program", "apiserver", "-link", "work", "-key", r.key,
		"-platform", "linux/amd64="+filepath.Join(source, "amd64"), "-platform", "linux/arm64="+filepath.Join(source, "arm64"))
	for _, format := range []string{"tar.gz", "zip"} {
		call(t, "archive", "-o", filepath.Join(dir, "cli."+format), "-add", "LICENSE="+filepath.Join(source, "LICENSE"), "-add", "bin="+filepath.Join(source, "amd64"))
	}
	call(t, "krew", "-version", "1.2.3", "-base", "https://example.com", "-o", filepath.Join(dir, "capstan.yaml"), "-archive", "linux/amd64="+filepath.Join(dir, "cli.tar.gz"))
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	call(t, "sbom", "-version", "1.2.3", "-commit", "abc", "-platform", "linux/amd64", "-image", "registry.test/capstan@sha256:abc", "-o", filepath.Join(dir, "sbom.json"), executable)
	call(t, "sums", "-dir", dir, "-key", r.key)
	return r
}

func call(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), &out, args)
	return out.String(), err
}

func newKeys(t *testing.T) string {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1767323046")
	t.Setenv("COSIGN_PASSWORD", "password")
	dir := t.TempDir()
	call(t, "keys", "-dir", dir)
	return dir
}

func TestTwoRunsGiveTheSameBytes(t *testing.T) {
	keys := newKeys(t)
	first, second := newRelease(t, keys), newRelease(t, keys)
	output, err := exec.CommandContext(t.Context(), "diff", "-r", first.dir, second.dir).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, output)
	}
}

func TestAReleaseIsVerified(t *testing.T) {
	keys := newKeys(t)
	others := t.TempDir()
	call(t, "keys", "-dir", others)
	otherKey := filepath.Join(others, "cosign.pub")
	earlier := newReleaseOf(t, keys, "earlier")
	for name, c := range map[string]struct {
		unsigned bool
		change   func(r *made) error
		want     string
	}{
		"as it was made":       {change: func(*made) error { return nil }},
		"another key":          {change: func(r *made) error { r.public = otherKey; return nil }, want: "not signed with this key"},
		"nobody signed":        {unsigned: true, change: func(r *made) error { r.public = otherKey; return nil }, want: "SHA256SUMS is not signed"},
		"unsigned, and no key": {unsigned: true, change: func(*made) error { return nil }},
		"checksums of another": {change: func(r *made) error { return appendTo(filepath.Join(r.dir, "cli.zip")) }, want: "cli.zip is not the file"},
		"an earlier image, signed with the same key": {change: func(r *made) error { r.layout = earlier.layout; return nil }, want: "was released"},
		"a blob that has changed":                    {change: func(r *made) error { return appendTo(largestBlob(r.layout)) }, want: "damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			used := keys
			if c.unsigned {
				used = ""
			}
			r := newRelease(t, used)
			if err := c.change(&r); err != nil {
				t.Fatal(err)
			}
			out, err := try(t, "verify", "-dir", r.dir, "-layout", r.layout, "-key", r.public)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q; it said:\n%s", err, c.want, out)
			}
		})
	}
}

func appendTo(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("x")
	return errors.Join(err, file.Close())
}

// largestBlob is the layer with the certificates.
func largestBlob(layout string) string {
	var largest string
	var size int64
	paths, _ := filepath.Glob(filepath.Join(layout, "blobs/sha256/*"))
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Size() > size {
			largest, size = path, info.Size()
		}
	}
	return largest
}

func TestAnImageThatNobodySignsSaysSo(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := call(t, "sums", "-dir", dir); !strings.HasPrefix(out, "NOT SIGNED") {
		t.Errorf("it said %q", out)
	}
}

func TestTheImageOfAPlatformHasItsExecutables(t *testing.T) {
	r := newRelease(t, newKeys(t))
	layout, err := ociimage.Open(r.layout)
	if err != nil {
		t.Fatal(err)
	}
	index, _, err := layout.Image()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 2 {
		t.Fatalf("there are %d platforms, want 2", len(manifest.Manifests))
	}
	for _, descriptor := range manifest.Manifests {
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkImage(t, image, *descriptor.Platform)
		docker, err := tarball.ImageFromPath(filepath.Join(r.dir, "image-linux-"+descriptor.Platform.Architecture+".docker.tar"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := configName(t, docker), configName(t, image); got != want {
			t.Errorf("the archive for docker has image %s, the layout %s", got, want)
		}
	}
}

func checkImage(t *testing.T, image v1.Image, platform v1.Platform) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Architecture != platform.Architecture || config.OS != "linux" || config.Config.User != "65532:65532" ||
		len(config.Config.Entrypoint) != 0 || config.Config.Labels["org.opencontainers.image.revision"] != "abc" {
		t.Errorf("the image for %s is configured as %+v", platform, config)
	}
	files := unpack(t, image)
	for path, want := range map[string]string{
		"manager": config.Architecture + "/manager", "apiserver": config.Architecture + "/apiserver", "work": "-> /manager", "tmp/": "", "licenses/LICENSE": "LICENSE",
	} {
		if got, found := files[path]; !found || got != want {
			t.Errorf("%s in the image for %s is %q, want %q", path, platform, got, want)
		}
	}
	if !strings.HasPrefix(files["etc/ssl/certs/ca-certificates.crt"], "-----BEGIN CERTIFICATE-----") {
		t.Errorf("the image for %s has no certificates", platform)
	}
}

func configName(t *testing.T, image v1.Image) v1.Hash {
	t.Helper()
	hash, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

// unpack returns the contents of the files of an image, by path.
func unpack(t *testing.T, image v1.Image) map[string]string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		reader := tar.NewReader(content)
		for {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(reader)
			if err != nil {
				t.Fatal(err)
			}
			files[header.Name] = string(text)
			if header.Linkname != "" {
				files[header.Name] = "-> " + header.Linkname
			}
		}
	}
	return files
}

func TestAPushedImageIsTheReleasedOneWithItsSignature(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	r := newRelease(t, newKeys(t))
	to := strings.TrimPrefix(server.URL, "http://") + "/team/capstan:1.2.3"
	call(t, "push", "-layout", r.layout, "-to", to)
	tag, err := name.NewTag(to)
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := pushed.Digest()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.dir, "image-digest.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "registry.test/capstan@" + digest.String() + "\n"; string(text) != want {
		t.Errorf("the release says %q, the registry has %q", text, want)
	}
	signature, err := remote.Image(tag.Context().Tag("sha256-" + digest.Hex + ".sig"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := signature.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"] == "" {
		t.Error("the manifest beside the image has no signature")
	}
}

func TestOnlyTheImageOfTheReleaseIsPushed(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	to := strings.TrimPrefix(server.URL, "http://") + "/team/capstan:1.2.3"
	keys := newKeys(t)
	r, earlier := newRelease(t, keys), newReleaseOf(t, keys, "earlier")
	if err := errors.Join(os.RemoveAll(r.layout), os.Rename(earlier.layout, r.layout)); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		if _, err := try(t, "push", "-layout", r.layout+"/", "-to", to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	refused("was released")
	if err := os.WriteFile(filepath.Join(r.dir, digestName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("image-digest.txt is not the file")
	tag, err := name.NewTag(to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Index(tag); err == nil {
		t.Error("the registry has an image")
	}
}

func TestWhatCannotBeReleased(t *testing.T) {
	changes := "# Changelog\n\n## [Unreleased]\n\n- Something.\n\n## [1.0.0] - 2026-01-01\n\n- All.\n"
	used := runtime.Version()
	for name, c := range map[string]struct{ version, dirty, toolchain, want string }{
		"a version with an entry":      {version: "1.0.0"},
		"a candidate":                  {version: "1.1.0-rc.1"},
		"a version without an entry":   {version: "1.1.0", want: "no entry 1.1.0"},
		"a tag":                        {version: "v1.0.0", want: "without the v"},
		"no semantic version":          {version: "1.0", want: "no semantic version"},
		"a version with metadata":      {version: "1.0.0+1", want: "tag of an image"},
		"a tree that is not clean":     {version: "1.0.0", dirty: "LICENSE", want: "not clean"},
		"the toolchain of go.mod":      {version: "1.0.0", toolchain: used},
		"another toolchain":            {version: "1.0.0", toolchain: "go1.21.0", want: "set GOTOOLCHAIN=go1.21.0"},
		"a file that git has not seen": {version: "1.0.0", dirty: "new", want: "?? new"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			git := func(args ...string) {
				cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
				if output, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %q: %v: %s", args, err, output)
				}
			}
			write := func(name, content string) {
				if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("CHANGELOG.md", changes)
			write("LICENSE", "text")
			module := "module example.com/a\n\ngo 1.21\n"
			if c.toolchain != "" {
				module += "\ntoolchain " + c.toolchain + "\n"
			}
			write("go.mod", module)
			git("init", "-q")
			git("add", ".")
			git("commit", "-q", "-m", "all")
			if c.dirty != "" {
				write(c.dirty, "other")
			}
			_, err := try(t, "check", "-root", root, "-version", c.version)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
