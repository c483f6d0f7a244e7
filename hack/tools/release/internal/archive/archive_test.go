// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func date() time.Time { return time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC) }

func TestAnArchiveDependsOnNamesModesAndContentsOnly(t *testing.T) {
	write := map[string]func(io.Writer, []File, time.Time) error{"tar": Tar, "tar.gz": TarGzip, "zip": Zip}
	for name, write := range write {
		t.Run(name, func(t *testing.T) {
			first, second := tree(t, 0o755, 0o644), tree(t, 0o700, 0o600)
			slices.Reverse(second)
			if err := os.Chtimes(second[0].Source, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
			var a, b bytes.Buffer
			if err := errors.Join(write(&a, first, date()), write(&b, second, date().Local())); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Error("files of other times, umasks and orders give another archive")
			}
		})
	}
}

// tree returns a program and a text below a directory of its own.
func tree(t *testing.T, program, text fs.FileMode) []File {
	t.Helper()
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"program": program, "docs/text": text} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := Tree(dir, "a/")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestWhatArchivesHave(t *testing.T) {
	files := append(tree(t, 0o755, 0o600), File{Name: "tmp/", Mode: 0o777 | fs.ModeSticky}, File{Name: "link", Link: "/a/program"})
	var compressed bytes.Buffer
	if err := TarGzip(&compressed, files, date()); err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(&compressed)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	reader := tar.NewReader(unpacked)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name+header.Linkname] = header.Mode
		if !header.ModTime.Equal(date()) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s is of %s and of user %d %q", header.Name, header.ModTime, header.Uid, header.Uname)
		}
	}
	want := map[string]int64{"a/program": 0o755, "a/docs/text": 0o644, "tmp/": 0o1777, "link/a/program": 0o777}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAZipKeepsWhatCanBeStarted(t *testing.T) {
	output := filepath.Join(t.TempDir(), "a.zip")
	if err := Write(output, tree(t, 0o755, 0o600), date()); err != nil {
		t.Fatal(err)
	}
	reader, err := zip.OpenReader(output)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	for _, file := range reader.File {
		want := fs.FileMode(0o644)
		if file.Name == "a/program" {
			want = 0o755
		}
		if file.Mode() != want || !file.Modified.Equal(date()) {
			t.Errorf("%s has mode %s and is of %s", file.Name, file.Mode(), file.Modified)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		output string
		files  []File
		want   string
	}{
		"a name that leads out":   {"a.tar", []File{{Name: "../a"}}, "no name"},
		"an absolute name":        {"a.tar", []File{{Name: "/a"}}, "no name"},
		"a name that is twice":    {"a.tar", []File{{Name: "a"}, {Name: "a"}}, "there twice"},
		"a link in a zip":         {"a.zip", []File{{Name: "a", Link: "b"}}, "is a link"},
		"a file that is not":      {"a.tgz", []File{{Name: "a", Source: filepath.Join(dir, "none")}}, "no such file"},
		"a directory as a file":   {"a.tgz", []File{{Name: "a", Source: dir}}, "no regular file"},
		"a format that is not so": {"a.rar", nil, "only"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Write(filepath.Join(t.TempDir(), c.output), c.files, date())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
