// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package checksums

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestChecksums(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		want   []string
	}{
		"nothing has changed":   {change: func(string) error { return nil }},
		"a file has changed":    {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600) }, []string{"a is not the file"}},
		"a file is missing":     {func(dir string) error { return os.Remove(filepath.Join(dir, "a")) }, []string{"a is missing"}},
		"a file was added":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, "c"), nil, 0o600) }, []string{"c is not in SHA256SUMS"}},
		"a file has a new name": {func(dir string) error { return os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "c")) }, []string{"a is missing", "c is not in"}},
		"the list is none":      {func(dir string) error { return os.WriteFile(filepath.Join(dir, Name), []byte("text"), 0o600) }, []string{"not of the form"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, content string) error {
				return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)
			}
			err := errors.Join(write("a", "hello\n"), write("b", ""), write("key", "left out"), write(SignatureName, "left out"), os.Mkdir(filepath.Join(dir, "d"), 0o750))
			if err != nil {
				t.Fatal(err)
			}
			sums, err := Make(dir, "key")
			if err != nil {
				t.Fatal(err)
			}
			// As sha256sum writes them.
			want := "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03  a\n" +
				"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
			if string(sums) != want {
				t.Fatalf("got %q, want %q", sums, want)
			}
			if err := errors.Join(write(Name, string(sums)), c.change(dir)); err != nil {
				t.Fatal(err)
			}
			err = Verify(dir, "key")
			if (err == nil) != (len(c.want) == 0) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %v, want %q in it", err, part)
				}
			}
		})
	}
}
