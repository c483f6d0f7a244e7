// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhatIsMissingIsNamedWithItsPackages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := CheckPrerequisites(true)
	if err == nil {
		t.Fatal("nothing is missing")
	}
	for _, word := range []string{
		"lacks ip, iptables, containerd, ctr, runc", "apt-get install", "iproute2", "dnf install", "iptables-nft",
	} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not contain %q", err, word)
		}
	}
	if n := strings.Count(err.Error(), "apt-get install containerd containerd"); n > 0 {
		t.Errorf("%q names a package twice", err)
	}
}

func TestClustersWithoutNodesNeedLess(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if err := CheckPrerequisites(false); err == nil || strings.Contains(err.Error(), "containerd") {
		t.Errorf("got %v, want an error without containerd", err)
	}
}

func TestPackagesAreInstalledWithVisibleProgress(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root installs packages")
	}
	// An apt-get that puts the programs where they are found.
	dir := t.TempDir()
	const program = `#!/bin/sh
echo "called with $*"
case "$*" in *install*) for name in ip iptables; do echo >"$PROGRAMS/$name"; /bin/chmod +x "$PROGRAMS/$name"; done; esac
`
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("PROGRAMS", dir)

	var output strings.Builder
	if err := InstallPrerequisites(t.Context(), false, &output); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"update\n", "install --yes --no-install-recommends iproute2 iptables\n"} {
		if !strings.Contains(output.String(), word) {
			t.Errorf("output %q does not contain %q", output.String(), word)
		}
	}

	output.Reset()
	if err := InstallPrerequisites(t.Context(), false, &output); err != nil || output.Len() > 0 {
		t.Errorf("a second time: %v, output %q, want none", err, output.String())
	}
}

func TestWithoutAptNothingIsInstalled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var output strings.Builder
	if err := InstallPrerequisites(t.Context(), false, &output); err == nil || !strings.Contains(err.Error(), "iproute2") {
		t.Errorf("got %v, want an error that names what is missing", err)
	}
}
