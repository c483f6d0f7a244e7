// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"fmt"
	"sync"
	"testing"

	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// besideMax is how many cases of a column run beside each other.
const besideMax = 6

// RunColumn runs the cases in their order; those that need not be alone, beside those
// next to them.
func RunColumn(t *testing.T, c *installation.Column, results *Table, list []TestCase) {
	t.Helper()
	for first := 0; first < len(list); {
		last := first
		for last+1 < len(list) && !list[first].alone && !list[last+1].alone {
			last++
		}
		runBeside(t, c, results, list[:last+1], first)
		if first == 0 && t.Failed() {
			return // nothing works in a cluster that has not joined
		}
		first = last + 1
	}
}

// runBeside runs the last of the cases, from the first of them on.
func runBeside(t *testing.T, c *installation.Column, results *Table, list []TestCase, first int) {
	t.Helper()
	var running sync.WaitGroup
	slots := make(chan struct{}, besideMax)
	for i := first; i < len(list); i++ {
		test := list[i]
		if test.Without[c.Mode] != "" {
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			t.Run(test.Name, func(t *testing.T) {
				defer func() {
					switch {
					case t.Failed():
						results.Note(test.Name, c.Mode, VerdictFailed)
					case t.Skipped():
						results.Note(test.Name, c.Mode, VerdictSkipped)
					default:
						results.Note(test.Name, c.Mode, VerdictPassed)
					}
				}()
				test.Run(&Scene{TB: t, Column: c, ID: fmt.Sprintf("case-%d", i+1)})
			})
		})
	}
	running.Wait()
}
