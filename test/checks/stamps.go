// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// stampLife is how long a stamp counts: what is not written down in it, such as the
// kernel's settings, changes in the end.
const stampLife = 14 * 24 * time.Hour

// stamps say which parts have passed on which inputs. Only a run of CI writes and
// believes them: what it tests is a commit, and nothing else.
type stamps struct {
	folder string
	// files are the tracked files with the hashes of their content, a line each, and
	// machine is what else the result of a part depends on.
	files   []string
	machine string
}

// openStamps reads what the parts of the checkout in this folder depend on. It is an
// error if a file is not as it was committed.
func openStamps(ctx context.Context, folder string) (*stamps, error) {
	changes, err := output(ctx, "git", "status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if changes != "" {
		return nil, fmt.Errorf("stamps are for commits, but there are changes:\n%s", changes)
	}
	s := &stamps{folder: folder}
	files, err := output(ctx, "git", "ls-tree", "-r", "HEAD")
	if err != nil {
		return nil, err
	}
	s.files = strings.Split(files, "\n")
	for _, command := range [][]string{
		{"go", "version"},
		{"uname", "-r", "-m"},
		{"sh", "-c", "dpkg-query -W containerd runc containernetworking-plugins iptables iproute2 gcc 2>/dev/null || true"},
	} {
		text, err := output(ctx, command[0], command[1:]...)
		if err != nil {
			return nil, err
		}
		s.machine += text + "\n"
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("keeping stamps: %w", err)
	}
	if err := s.deleteOld(); err != nil {
		return nil, fmt.Errorf("deleting old stamps: %w", err)
	}
	return s, nil
}

// deleteOld deletes the stamps that count no more.
func (s *stamps) deleteOld() error {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return err //nolint:wrapcheck // it says of which folder
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && time.Since(info.ModTime()) > stampLife {
			err = os.Remove(filepath.Join(s.folder, entry.Name()))
		}
		if err != nil {
			return err //nolint:wrapcheck // it says of which file
		}
	}
	return nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	text, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(text)), nil
}

// find returns when a part passed on the same inputs, or nothing.
func (s *stamps) find(p part) string {
	if s == nil || p.tests == nil {
		return ""
	}
	info, err := os.Stat(s.path(p))
	if err != nil || time.Since(info.ModTime()) > stampLife {
		return ""
	}
	return info.ModTime().UTC().Format(time.DateTime)
}

// keep writes down that a part has passed. That it cannot costs the next run time,
// and nothing else.
func (s *stamps) keep(p part) {
	if s == nil || p.tests == nil {
		return
	}
	_ = os.WriteFile(s.path(p), []byte(s.inputs(p)), 0o600)
}

func (s *stamps) path(p part) string {
	sum := sha256.Sum256([]byte(s.inputs(p)))
	return filepath.Join(s.folder, p.target+"-"+hex.EncodeToString(sum[:]))
}

// elsewhere are files and folders that no program and no script has anything of which
// a part runs that keeps its result, unless they are its own.
func elsewhere() []string {
	return []string{
		".ci", ".github", ".golangci.yml", "docs", "internal/testing", "test",
		"hack/fuzz.sh", "hack/lint", "hack/packages.sh", "hack/soak.sh", "hack/verify-generated.sh",
	}
}

// inputs lists what the result of a part depends on: its own folders, the lab, and of
// all others, unless these count alone, what is neither a page nor there for their
// tests.
func (s *stamps) inputs(p part) string {
	mine := slices.DeleteFunc(slices.Clone(s.files), func(line string) bool {
		_, file, _ := strings.Cut(line, "\t")
		within := func(folder string) bool { return file == folder || strings.HasPrefix(file, folder+"/") }
		switch {
		case p.alone:
			return !slices.ContainsFunc(p.tests, within)
		case strings.HasSuffix(file, ".md"):
			return true
		case slices.ContainsFunc(p.tests, within):
			return false
		case strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/"):
			return true
		}
		return slices.ContainsFunc(elsewhere(), within) && !within("test/lab")
	})
	return p.target + "\n" + s.machine + strings.Join(mine, "\n")
}
