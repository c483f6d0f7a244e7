// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-io/capstan/test/internal/proof"
)

// change is what differs from a commit.
type change struct {
	root, base string
	files      []string
}

// changeSince returns what differs from a commit; an error if git does not know it.
func changeSince(ctx context.Context, root, base string) (*change, error) {
	c := &change{root: root, base: base}
	if _, err := c.git(ctx, "rev-parse", "--quiet", "--verify", base+"^{commit}"); err != nil {
		return nil, fmt.Errorf("there is no commit %q to compare with: fetch it, or set MUTATION_BASE to one that is there: %w", base, err)
	}
	out, err := c.git(ctx, "diff", "--name-only", base)
	if err != nil {
		return nil, fmt.Errorf("listing what changed since %s: %w", base, err)
	}
	c.files = strings.Fields(out)
	return c, nil
}

func (c *change) git(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = c.root
	out, err := command.Output()
	return string(out), err
}

// touched returns the rows that a change is about: their own text, a file with their
// mutants, or one with one of their tests has changed.
func (c *change) touched(ctx context.Context, rows []proof.Row, filesOf func(proof.Row) []string) ([]proof.Row, error) {
	before := map[string]string{}
	for _, table := range proof.Tables() {
		text, err := c.git(ctx, "show", c.base+":"+table.Path())
		if err != nil {
			continue // the table is new
		}
		for _, row := range proof.Parse(text, table) {
			before[row.Name()] = row.Text
		}
	}
	var touched []proof.Row
	for _, row := range rows {
		tests, err := c.testsChanged(row)
		if err != nil {
			return nil, err
		}
		if tests || before[row.Name()] != row.Text || slices.ContainsFunc(filesOf(row), c.has) {
			touched = append(touched, row)
		}
	}
	return touched, nil
}

// has reports whether a file has changed, or a file of a folder that ends in a slash.
func (c *change) has(path string) bool {
	return slices.ContainsFunc(c.files, func(file string) bool {
		return file == path || strings.HasSuffix(path, "/") && strings.HasPrefix(file, path)
	})
}

// testsChanged reports whether a file has changed that has one of a row's tests.
func (c *change) testsChanged(row proof.Row) (bool, error) {
	for _, test := range row.Tests() {
		for _, file := range c.files {
			if filepath.Dir(file) != test.Folder || !strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(filepath.Join(c.root, file))
			if os.IsNotExist(err) {
				continue // it was removed, and its tests with it
			}
			if err != nil {
				return false, fmt.Errorf("looking for tests that changed: %w", err)
			}
			if strings.Contains(string(source), "func "+test.Name+"(") {
				return true, nil
			}
		}
	}
	return false, nil
}

// sampleRows returns so many of the rows, spread evenly over them; all if these are not
// more, or the number is zero.
func sampleRows(rows []proof.Row, most int) []proof.Row {
	if most == 0 || len(rows) <= most {
		return rows
	}
	chosen := make([]proof.Row, most)
	for i := range chosen {
		chosen[i] = rows[i*len(rows)/most]
	}
	return chosen
}
