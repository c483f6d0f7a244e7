// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/capstan-io/capstan/test/internal/proof"
	"github.com/capstan-io/capstan/test/mutation/schemata"
	"github.com/capstan-io/capstan/test/mutation/testrun"
)

// outcome is what the check of a row found.
type outcome string

const (
	killed     outcome = "killed"
	survived   outcome = "survived"
	notReached outcome = "not reached"
	panicked   outcome = "panicked"
	// unresolved is of a row whose field the product does not use by its name in Go.
	unresolved outcome = "not resolved"
	// failing is of a row with a test that fails without a mutant.
	failing outcome = "failing"
)

func outcomes() []outcome {
	return []outcome{killed, survived, notReached, panicked, unresolved, failing}
}

// result is what is known of a row.
type result struct {
	Row     string  `json:"row"`
	Outcome outcome `json:"outcome"`
	// Mutant, Value and Test are those of the run that decided.
	Mutant string `json:"mutant,omitempty"`
	Value  string `json:"value,omitempty"`
	Test   string `json:"test,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// checker checks rows.
type checker struct {
	runner  *testrun.Runner
	mutants *schemata.Mutants
	inputs  map[string]input

	lock      sync.Mutex
	baselines map[proof.Test]func() (baseline, error)
}

func newChecker(runner *testrun.Runner, mutants *schemata.Mutants, inputs map[string]input) *checker {
	return &checker{runner: runner, mutants: mutants, inputs: inputs, baselines: map[proof.Test]func() (baseline, error){}}
}

// baseline is a test without a mutant.
type baseline struct {
	testrun.Ran
	alone bool
}

// check runs the tests of a row with its mutants, until one fails. Those that take
// longer are not run if another one has failed.
func (c *checker) check(ctx context.Context, row proof.Row) (result, error) {
	found := result{Row: row.Name(), Outcome: unresolved, Detail: "no code of the product uses it by its name in Go"}
	chosen := c.mutants.Choose(row)
	if len(chosen) == 0 {
		return found, nil
	}
	found = result{Row: row.Name(), Outcome: notReached, Mutant: chosen[0]}
	if len(proving(row, chosen[0])) == 0 {
		found.Detail = "its tests only show what is refused, and the product uses it for more"
	}
	for _, name := range chosen {
		for _, value := range c.mutants.Values(row, name) {
			for _, test := range quickFirst(proving(row, name), c.inputs) {
				now, err := c.try(ctx, row, test, testrun.Setting{Mutant: name, Value: value})
				if err != nil || now.Outcome == killed || now.Outcome == failing {
					return now, err
				}
				if slices.Index(weights(), now.Outcome) > slices.Index(weights(), found.Outcome) {
					found = now
				}
			}
		}
	}
	return found, nil
}

// weights returns the outcomes of single runs, those that say more later.
func weights() []outcome { return []outcome{notReached, panicked, survived} }

// try runs a test with a mutant.
func (c *checker) try(ctx context.Context, row proof.Row, test proof.Test, on testrun.Setting) (result, error) {
	found := result{Row: row.Name(), Outcome: notReached, Mutant: on.Mutant, Value: on.Value, Test: test.Folder + "." + testrun.FullName(test)}
	before, err := c.baseline(ctx, test)
	if err == nil && before.Verdict != testrun.Passed {
		found.Outcome, found.Detail = failing, fmt.Sprintf("without a mutant it %s: %s", before.Verdict, before.Detail)
		return found, nil
	}
	if err != nil || schemata.IsCode(on.Mutant) && !before.Reached[on.Mutant] {
		return found, err
	}
	now, err := c.runner.Run(ctx, test, before.alone, on)
	if err != nil {
		return found, err
	}
	found.Detail = now.Detail
	switch {
	case !now.Reached[on.Mutant]:
	case now.Verdict == testrun.Failed:
		found.Outcome = killed
	case now.Verdict == testrun.Passed:
		found.Outcome = survived
	default:
		found.Outcome = panicked
	}
	return found, nil
}

// baseline runs a test without a mutant, once. A case that does not pass alone may
// need what those before it have left.
func (c *checker) baseline(ctx context.Context, test proof.Test) (baseline, error) {
	c.lock.Lock()
	once, ok := c.baselines[test]
	if !ok {
		once = sync.OnceValues(func() (baseline, error) { return c.withoutMutant(ctx, test) })
		c.baselines[test] = once
	}
	c.lock.Unlock()
	return once()
}

func (c *checker) withoutMutant(ctx context.Context, test proof.Test) (baseline, error) {
	alone, err := c.runner.Run(ctx, test, true, testrun.Setting{})
	if err != nil || alone.Verdict == testrun.Passed || test.Case == "" {
		return baseline{Ran: alone, alone: true}, err
	}
	whole, err := c.baseline(ctx, proof.Test{Folder: test.Folder, Name: test.Name})
	whole.alone, whole.Verdict = false, whole.Of(test)
	return whole, err
}
