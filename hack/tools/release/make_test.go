// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// unknown is a version that CHANGELOG.md does not have, so that nothing is made
// of it even if make lets it pass.
const unknown = "VERSION=99.0.0"

// callMake runs make as from a shell of its own, whoever runs the test.
func callMake(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "-C", filepath.Join("..", "..", "..")}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "MAKE") })
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func TestMakeRefusesAtOnceWhatCannotBecomeARelease(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an earlier bundle that is not there":        {[]string{"release", unknown, "CATALOG_BUNDLES=nowhere=example.com/a@sha256:1"}, "nowhere is no directory with a bundle"},
		"no executable for this machine":             {[]string{"release", unknown, "RELEASE_PLATFORMS=plan9/386", "RELEASE_IMAGE_PLATFORMS="}, "has to have " + runtime.GOOS + "/" + runtime.GOARCH},
		"no executable but one whose name is longer": {[]string{"release", unknown, "RELEASE_PLATFORMS=" + runtime.GOOS + "/" + runtime.GOARCH + "le", "RELEASE_IMAGE_PLATFORMS="}, "has to have"},
	} {
		t.Run(name, func(t *testing.T) {
			if output, err := callMake(t, c.args...); err == nil || !strings.Contains(output, c.want) {
				t.Errorf("got %v, want %q; it said:\n%s", err, c.want, output)
			}
		})
	}
}

// The clone would make its release in the same place, after removing what is there.
func TestMakeComparesNothingWithItself(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "SHA256SUMS")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir, "bin/../../" + filepath.Base(dir), ".."} {
		output, err := callMake(t, "release-check", unknown, "RELEASE_DIR="+name)
		if err == nil || !strings.Contains(output, "relative to the repository") {
			t.Errorf("%s: got %v; it said:\n%s", name, err, output)
		}
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the release is gone: %v", err)
	}
}

// The clone is another directory, in which relative names would be sought.
func TestTheCloneIsGivenAbsoluteNamesOfBundles(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	// Nothing is run: MAKE is what would be.
	output, err := callMake(t, "-n", "release-check", "MAKE=echo", unknown, "CATALOG_BUNDLES=old/a=example.com/a@sha256:1 /old/b")
	want := "CATALOG_BUNDLES=" + root + "/old/a=example.com/a@sha256:1 /old/b\n"
	if err != nil || !strings.Contains(output, want) {
		t.Errorf("got %v, want %q; it said:\n%s", err, want, output)
	}
}

func TestExecutablesDoNotDependOnSettingsOfTheMachine(t *testing.T) {
	for _, target := range []string{"release-build/linux/arm64", "bin/release"} {
		output, err := callMake(t, "-n", target)
		want := "GOENV=off GOWORK=off GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off go build"
		if err != nil || !strings.Contains(output, want) {
			t.Errorf("make %s: got %v, want %q; it said:\n%s", target, err, want, output)
		}
	}
}

func TestBundlesAreLaidOutAsOperatorHubHasThem(t *testing.T) {
	// Nothing is run: MAKE is what would be.
	output, err := callMake(t, "-n", "release-olm", "MAKE=echo", unknown)
	for _, want := range []string{
		"-add operators/capstan-hub/ci.yaml=bin/bundles/99.0.0/clustermanager/ci.yaml ",
		"-add operators/capstan-hub/99.0.0/manifests=bin/bundles/99.0.0/clustermanager/manifests ",
		"-add operators/capstan-klusterlet/99.0.0/tests=bin/bundles/99.0.0/klusterlet/tests\n",
	} {
		if err != nil || !strings.Contains(output, want) {
			t.Errorf("got %v, want %q; it said:\n%s", err, want, output)
		}
	}
}
