// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package testrun runs tests of the product with a mutant on.
package testrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/capstan-io/capstan/test/internal/proof"
	"github.com/capstan-io/capstan/test/mutation/mutant"
	"github.com/capstan-io/capstan/test/mutation/schemata"
)

// runLimit is how long a test may run. One that takes longer says nothing about the
// mutant: waits for what never comes end long before.
const runLimit = 10 * time.Minute

// Setting is what is on while a test runs: no mutant if it is empty.
type Setting struct{ Mutant, Value string }

// Ran is what came of a run of a test.
type Ran struct {
	Verdict Verdict
	// Detail are the lines of the test that say why it failed.
	Detail string
	// Reached are the mutants that it came to.
	Reached map[string]bool
	output  string
}

// Of returns the verdict on a test that may have run together with others.
func (r Ran) Of(test proof.Test) Verdict { return judge(r.output, FullName(test)) }

// Runner runs tests.
type Runner struct {
	root   string
	builds *builds
}

// NewRunner returns one of the tests of the overlay's repository. It builds their
// programs in a folder.
func NewRunner(o *schemata.Overlay, folder string) *Runner {
	return &Runner{root: o.Root, builds: newBuilds(o, folder)}
}

// Run runs a test, or one of its cases: alone, or among all cases of the test if it
// cannot run alone.
func (r *Runner) Run(ctx context.Context, test proof.Test, alone bool, on Setting) (Ran, error) {
	program, err := r.builds.program(ctx, test.Folder)
	if err != nil {
		return Ran{}, err
	}
	scratch, err := os.MkdirTemp("", "capstan-mutation-")
	if err != nil {
		return Ran{}, fmt.Errorf("making a folder for what %s reaches: %w", test.Name, err)
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // it is in the folder for temporary files
	noted := filepath.Join(scratch, "reached")
	command := exec.CommandContext(ctx, program, "-test.v", "-test.run", pattern(test, alone), "-test.timeout", runLimit.String())
	command.Dir = filepath.Join(r.root, test.Folder)
	command.Env = append(os.Environ(), mutant.Variable+"="+on.Mutant, mutant.ValueVariable+"="+on.Value, mutant.ReachedVariable+"="+noted)
	command.WaitDelay = time.Second // what the test left running may hold its output
	defer endLeftovers(mutant.ReachedVariable + "=" + noted)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err = command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return Ran{}, fmt.Errorf("running %s of %s: %w", test.Name, test.Folder, err)
	}
	result := Ran{output: out.String(), Reached: map[string]bool{}}
	result.Verdict, result.Detail = result.Of(test), because(out.String())
	lines, err := os.ReadFile(noted)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Ran{}, fmt.Errorf("reading what %s reached: %w", test.Name, err)
	}
	for name := range strings.Lines(string(lines)) {
		result.Reached[strings.TrimSpace(name)] = true
	}
	return result, nil
}

// pattern returns what chooses a test for -test.run.
func pattern(test proof.Test, alone bool) string {
	name := FullName(test)
	if !alone {
		name = test.Name
	}
	var parts []string
	for part := range strings.SplitSeq(name, "/") {
		parts = append(parts, "^"+regexp.QuoteMeta(part)+"$")
	}
	return strings.Join(parts, "/")
}

// FullName returns the name of a test as go test prints it.
func FullName(test proof.Test) string {
	if test.Case == "" {
		return test.Name
	}
	return test.Name + "/" + strings.ReplaceAll(test.Case, " ", "_")
}
