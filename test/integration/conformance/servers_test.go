// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// dedicated asks for a hub as a ControlPlane makes it.
var dedicated = flag.Bool("dedicated", false, "the hub is a dedicated one")

// servers are the API servers of the tests of this package.
var servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(servers.RunTests(m)) }

// newSetting compiles the programs for a suite.
func newSetting(t testing.TB) installation.Setting {
	t.Helper()
	dir := t.TempDir()
	return installation.Setting{Servers: servers, Dir: dir, Programs: buildPrograms(t, dir), Dedicated: *dedicated}
}

// buildPrograms compiles the executables and gives them the names that they have
// in the image.
func buildPrograms(t testing.TB, dir string) string {
	t.Helper()
	programs := filepath.Join(dir, "programs")
	if err := os.Mkdir(programs, 0o700); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", programs, "./cmd/capstan-manager", "./cmd/"+installation.AggregatedProgram)
	build.Dir = installation.Root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, link := range []string{"registration", "work", "placement", "propagation", "registration-operator"} {
		if err := os.Symlink("capstan-manager", filepath.Join(programs, link)); err != nil {
			t.Fatal(err)
		}
	}
	return programs
}
