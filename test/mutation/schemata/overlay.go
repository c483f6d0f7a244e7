// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package schemata

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Overlay are files that go build -overlay takes instead of those of the repository.
type Overlay struct {
	Root, folder string
	// replaced has the path of the file to take by the path that it replaces.
	replaced map[string]string
}

// add replaces a file of the repository.
func (o *Overlay) add(path string, content []byte) error {
	relative, err := filepath.Rel(o.Root, path)
	if err != nil {
		return fmt.Errorf("%s is not in %s: %w", path, o.Root, err)
	}
	to := filepath.Join(o.folder, strings.ReplaceAll(relative, "/", "_"))
	if err := os.WriteFile(to, content, 0o600); err != nil {
		return fmt.Errorf("writing a mutated file: %w", err)
	}
	o.replaced[path] = to
	return nil
}

// File returns the path of the file that -overlay takes.
func (o *Overlay) File() string { return filepath.Join(o.folder, "overlay.json") }

// write writes that file.
func (o *Overlay) write() error {
	content, err := json.Marshal(map[string]any{"Replace": o.replaced})
	if err != nil {
		return fmt.Errorf("encoding the overlay: %w", err)
	}
	if err := os.WriteFile(o.File(), content, 0o600); err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	return nil
}

// Content returns the path of the file that is taken for a path of the repository.
func (o *Overlay) Content(path string) string {
	if mutated, ok := o.replaced[path]; ok {
		return mutated
	}
	return path
}
