// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package program finds and lays out the executable that has the programs of
// Kubernetes in it.
package program

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Name is the name of the executable, beside that of the lab.
const Name = "kube"

// assets are the programs that a test environment of controller-runtime needs,
// and the one that makes a cluster of it.
var assets = []string{"etcd", "kube-apiserver", "kubectl", "kube-controller-manager"}

// WriteAssets lays out the executables for a test environment in a directory
// that depends on nothing outside of it.
func WriteAssets(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own executable: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make directory for assets: %w", err)
	}
	program := filepath.Join(dir, Name)
	if err := copyExecutable(program, filepath.Join(filepath.Dir(self), Name)); err != nil {
		return err
	}
	for _, name := range assets {
		link := filepath.Join(dir, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace asset: %w", err)
		}
		if err := os.Symlink(Name, link); err != nil {
			return fmt.Errorf("make asset: %w", err)
		}
	}
	return nil
}

// copyExecutable copies a file next to its target and moves it there, because
// the target may be running.
func copyExecutable(target, source string) error {
	from, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("copy executable: %w", err)
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(target+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("copy executable: %w", err)
	}
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		return fmt.Errorf("copy executable: %w", err)
	}
	if err := to.Close(); err != nil {
		return fmt.Errorf("copy executable: %w", err)
	}
	if err := os.Rename(to.Name(), target); err != nil {
		return fmt.Errorf("copy executable: %w", err)
	}
	return nil
}
