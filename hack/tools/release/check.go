// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"

	"github.com/capstan-io/capstan/hack/tools/release/internal/changelog"
)

// changesMost is how many changed files an error about a dirty tree names.
const changesMost = 5

func runCheck(ctx context.Context, out io.Writer, flags *flag.FlagSet, args []string) error {
	version := flags.String("version", "", "version to release")
	root := flags.String("root", ".", "directory of the repository")
	dirty := flags.Bool("allow-dirty", false, "do not ask git: for a trial, whose result is not to be published")
	if err := parse(flags, args, "version"); err != nil {
		return err
	}
	var problems []error
	if !*dirty {
		problems = append(problems, checkTree(ctx, *root))
	}
	if err := checkToolchain(ctx, *root); err != nil {
		problems = append(problems, err)
	}
	if err := checkVersion(*version); err != nil {
		problems = append(problems, err)
	} else if _, err := notes(*root, *version); err != nil {
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("%s cannot be released:\n%w", *version, err)
	}
	fmt.Fprintf(out, "%s can be released from this tree\n", *version)
	return nil
}

func checkVersion(version string) error {
	switch {
	case strings.HasPrefix(version, "v"):
		return fmt.Errorf("VERSION=%s: write it without the v, which only the tag has", version)
	case !semver.IsValid("v"+version) || semver.Canonical("v"+version) != "v"+strings.SplitN(version, "+", 2)[0]:
		return fmt.Errorf("VERSION=%s is no semantic version, such as 0.2.0 or 0.2.0-rc.1", version)
	case semver.Build("v"+version) != "":
		return fmt.Errorf("VERSION=%s has metadata of a build, which the tag of an image cannot have", version)
	}
	return nil
}

// checkToolchain fails if Go is not of the version that go.mod names as its
// toolchain: another one writes other bytes. The go line is no such name, as it is
// the oldest version; without a toolchain, the SBOM says which one was used.
func checkToolchain(ctx context.Context, root string) error {
	content, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	module, err := modfile.Parse("go.mod", content, nil)
	if err != nil {
		return err
	}
	if module.Toolchain == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION")
	cmd.Dir = root
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("asking go for its version: %w", err)
	}
	if used := strings.TrimSpace(string(output)); used != module.Toolchain.Name {
		return fmt.Errorf("go.mod names the toolchain %s, but this is %s, which writes other bytes; set GOTOOLCHAIN=%s",
			module.Toolchain.Name, used, module.Toolchain.Name)
	}
	return nil
}

func checkTree(ctx context.Context, root string) error {
	cmd := exec.CommandContext(ctx, "git", "-C", root, "status", "--porcelain")
	output, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("asking git what has changed in %s: %w", root, err)
	}
	changes := strings.Split(strings.TrimRight(string(output), "\n"), "\n")
	if changes[0] == "" {
		return nil
	}
	more := ""
	if len(changes) > changesMost {
		more = fmt.Sprintf("\n  and %d more", len(changes)-changesMost)
		changes = changes[:changesMost]
	}
	return fmt.Errorf("the tree is not clean, so nobody could make the same release from the commit; commit or stash:\n  %s%s",
		strings.Join(changes, "\n  "), more)
}

func runNotes(_ context.Context, _ io.Writer, flags *flag.FlagSet, args []string) error {
	version := flags.String("version", "", "version to release")
	root := flags.String("root", ".", "directory of the repository")
	image := flags.String("image", "", "image with its digest, which the notes name")
	output := flags.String("o", "", "file to write")
	if err := parse(flags, args, "version", "image", "o"); err != nil {
		return err
	}
	text, err := notes(*root, *version)
	if err != nil {
		return err
	}
	text = fmt.Sprintf("# Capstan %s\n\n%s\n\n## Image\n\n`%s`, for linux/amd64 and linux/arm64.\n\nHow to verify it, and the files of this release, is in docs/RELEASE.md.\n",
		*version, text, *image)
	return os.WriteFile(*output, []byte(text), 0o644)
}

func notes(root, version string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	entries, err := changelog.Parse(string(content))
	if err != nil {
		return "", fmt.Errorf("CHANGELOG.md: %w", err)
	}
	text, err := entries.Notes(version)
	if err != nil {
		return "", fmt.Errorf("CHANGELOG.md: %w", err)
	}
	return text, nil
}
