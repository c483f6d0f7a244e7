// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/capstan-io/capstan/test/mutation/schemata"
)

// builds are the test programs of packages, with all mutants in them. Each is built
// when it is first asked for.
type builds struct {
	overlay *schemata.Overlay
	folder  string

	lock     sync.Mutex
	programs map[string]func() (string, error)
}

func newBuilds(o *schemata.Overlay, folder string) *builds {
	return &builds{overlay: o, folder: folder, programs: map[string]func() (string, error){}}
}

// program returns the path of the test program of a folder.
func (b *builds) program(ctx context.Context, folder string) (string, error) {
	b.lock.Lock()
	build, ok := b.programs[folder]
	if !ok {
		build = sync.OnceValues(func() (string, error) { return b.build(ctx, folder) })
		b.programs[folder] = build
	}
	b.lock.Unlock()
	return build()
}

func (b *builds) build(ctx context.Context, folder string) (string, error) {
	program := filepath.Join(b.folder, strings.ReplaceAll(folder, "/", "_")+".test")
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", b.overlay.File(), "-o", program, "./"+folder)
	command.Dir = b.overlay.Root
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the tests of %s with mutants: %w\n%s", folder, err, out)
	}
	return program, nil
}
