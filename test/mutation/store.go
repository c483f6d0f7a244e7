// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-io/capstan/test/internal/proof"
	"github.com/capstan-io/capstan/test/mutation/schemata"
)

// store keeps results, by all that they depend on.
type store struct {
	folder string
	// inputs are those of test programs, by the folder.
	inputs map[string]input
}

// input is what a test program is made of.
type input struct {
	// hash is that of its sources.
	hash string
	// servers is of one whose tests start API servers, so that they take longer.
	servers bool
}

// key returns the name of the file of a row's result.
func (s *store) key(row proof.Row, mutants []string) string {
	hash := sha256.New()
	fmt.Fprintln(hash, row.Name(), row.Text)
	for _, mutant := range mutants {
		fmt.Fprintln(hash, mutant, proving(row, mutant))
	}
	for _, test := range row.Tests() {
		fmt.Fprintln(hash, s.inputs[test.Folder].hash)
	}
	return filepath.Join(s.folder, hex.EncodeToString(hash.Sum(nil))[:32]+".json")
}

// load returns the result of a row, if there is one.
func (s *store) load(key string) (result, bool) {
	content, err := os.ReadFile(key)
	if err != nil {
		return result{}, false
	}
	var found result
	return found, json.Unmarshal(content, &found) == nil
}

// save keeps a result.
func (s *store) save(key string, found result) error {
	content, err := json.Marshal(found)
	if err != nil {
		return fmt.Errorf("encoding the result of %s: %w", found.Row, err)
	}
	if err := os.WriteFile(key, content, 0o600); err != nil {
		return fmt.Errorf("keeping the result of %s: %w", found.Row, err)
	}
	return nil
}

// serversPackage is what starts API servers in tests.
const serversPackage = schemata.Module + "internal/testing/env"

// inputsOf hashes the sources of the test programs of folders, as they are with the
// overlay: those of all packages of ours that they have in them.
func inputsOf(ctx context.Context, o *schemata.Overlay, folders []string) (map[string]input, error) {
	if len(folders) == 0 {
		return nil, nil // go list would take the folder that it runs in
	}
	args := []string{"list", "-deps=false", "-test", "-json=ForTest,Deps"}
	for _, folder := range folders {
		args = append(args, "./"+folder)
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = o.Root
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing what the tests are made of: %w", err)
	}
	hashes, inputs := map[string]string{}, map[string]input{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var pkg struct {
			ForTest string
			Deps    []string
		}
		if err := decoder.Decode(&pkg); errors.Is(err, io.EOF) {
			return inputs, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding what the tests are made of: %w", err)
		}
		folder, ours := strings.CutPrefix(pkg.ForTest, schemata.Module)
		if !ours {
			continue
		}
		hash, err := hashOf(o, pkg.ForTest, pkg.Deps, hashes)
		if err != nil {
			return nil, err
		}
		before := inputs[folder] // of the other package of its tests
		inputs[folder] = input{hash: before.hash + hash, servers: before.servers || slices.Contains(pkg.Deps, serversPackage)}
	}
}

// hashOf hashes the packages that a test program is made of, with the tests of the one
// whose tests they are; hashes are of those that were hashed already.
func hashOf(o *schemata.Overlay, tested string, packages []string, hashes map[string]string) (string, error) {
	whole := sha256.New()
	for _, name := range slices.Sorted(slices.Values(append(packages, tested))) {
		path, _, _ := strings.Cut(name, " ") // of a package that is compiled for a test
		folder, ours := strings.CutPrefix(path, schemata.Module)
		if !ours {
			continue
		}
		key := fmt.Sprint(folder, path == tested)
		if hashes[key] == "" {
			hash, err := hashFolder(o, filepath.Join(o.Root, folder), path == tested)
			if err != nil {
				return "", err
			}
			hashes[key] = hash
		}
		fmt.Fprintln(whole, key, hashes[key])
	}
	return hex.EncodeToString(whole.Sum(nil)), nil
}

// hashFolder hashes the files of a folder, with or without its tests, and of those
// below it that are no packages.
func hashFolder(o *schemata.Overlay, folder string, tests bool) (string, error) {
	hash := sha256.New()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipUnless(path == folder || !isPackage(path))
		}
		if strings.HasSuffix(path, "_test.go") && !tests {
			return nil
		}
		content, err := os.ReadFile(o.Content(path))
		if err != nil {
			return err
		}
		fmt.Fprintf(hash, "%s %x\n", entry.Name(), sha256.Sum256(content))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hashing %s: %w", folder, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func skipUnless(wanted bool) error {
	if !wanted {
		return fs.SkipDir
	}
	return nil
}

func isPackage(folder string) bool {
	code, _ := filepath.Glob(filepath.Join(folder, "*.go")) // the pattern is a good one
	return len(code) > 0
}

// quickFirst returns tests with those that start API servers last.
func quickFirst(tests []proof.Test, inputs map[string]input) []proof.Test {
	quick, slow := []proof.Test{}, []proof.Test{}
	for _, test := range tests {
		if inputs[test.Folder].servers {
			slow = append(slow, test)
		} else {
			quick = append(quick, test)
		}
	}
	return append(quick, slow...)
}
