// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checksums writes and verifies the file SHA256SUMS of a directory, in
// the form of sha256sum.
package checksums

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Name is that of the file, and SignatureName that of its signature.
const (
	Name          = "SHA256SUMS"
	SignatureName = Name + ".sig"
)

// Make returns the checksums of the files in a directory, except those that
// exist because of them. Directories are left out: what they have, an archive
// beside them has too.
func Make(dir string, without ...string) ([]byte, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, entry := range entries {
		if entry.IsDir() || entry.Name() == Name || entry.Name() == SignatureName || slices.Contains(without, entry.Name()) {
			continue
		}
		sum, err := file(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, entry.Name())
	}
	if out.Len() == 0 {
		return nil, fmt.Errorf("%s has no files", dir)
	}
	return out.Bytes(), nil
}

// Verify compares the files of a directory with its checksums: each has to be as
// they say, and there may be none that they do not know.
func Verify(dir string, without ...string) error {
	want, err := os.ReadFile(filepath.Join(dir, Name))
	if err != nil {
		return err
	}
	got, err := Make(dir, without...)
	if err != nil {
		return err
	}
	listed, err := parse(want)
	if err != nil {
		return err
	}
	present, err := parse(got)
	if err != nil {
		return err
	}
	var problems []error
	for name, sum := range listed {
		switch present[name] {
		case sum:
		case "":
			problems = append(problems, fmt.Errorf("%s is missing", name))
		default:
			problems = append(problems, fmt.Errorf("%s is not the file that was released", name))
		}
	}
	for name := range present {
		if listed[name] == "" {
			problems = append(problems, fmt.Errorf("%s is not in %s", name, Name))
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

func parse(content []byte) (map[string]string, error) {
	sums := map[string]string{}
	for line := range strings.Lines(string(content)) {
		sum, name, found := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !found || sum == "" || name == "" {
			return nil, fmt.Errorf("%s: %q is not of the form CHECKSUM, two blanks, NAME", Name, line)
		}
		sums[name] = sum
	}
	return sums, nil
}

func file(path string) (sum string, err error) {
	content, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, content); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
