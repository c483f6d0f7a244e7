// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// backupFile is one that is there whole or not at all, and for its owner only.
type backupFile struct {
	path      string
	overwrite bool
}

// checkWritable reports whether the file may be written.
func (f backupFile) checkWritable() error {
	info, err := os.Lstat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for the file to write: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s exists, and is not a file that can be replaced", f.path)
	case !f.overwrite:
		return exit.Next(fmt.Errorf("file %s already exists", f.path), "Choose another name, or replace it with --%s.", flagForce)
	}
	return nil
}

// writeAtomically writes the file. Until it is complete, it has another name next to it.
func (f backupFile) writeAtomically(content func(io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*") // with mode 0600
	if err != nil {
		return fmt.Errorf("create the file: %w", err)
	}
	if err := errors.Join(content(temporary), temporary.Sync(), temporary.Close()); err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	// Somebody may have made one in the meantime.
	if err := f.checkWritable(); err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	if err := os.Rename(temporary.Name(), f.path); err != nil {
		return errors.Join(fmt.Errorf("give the file its name: %w", err), os.Remove(temporary.Name()))
	}
	return nil
}

// readFile reads a file that a flag names.
func readFile[T any](flag, path string, parse func(io.Reader) (T, error)) (parsed T, err error) {
	opened, err := os.Open(path) //nolint:gosec // the user names it
	if err != nil {
		return parsed, exit.UsageError("--%s: %w", flag, err)
	}
	defer opened.Close() //nolint:errcheck // it was only read
	if parsed, err = parse(opened); err != nil {
		return parsed, exit.UsageError("--%s: %s: %w", flag, path, err)
	}
	return parsed, nil
}
