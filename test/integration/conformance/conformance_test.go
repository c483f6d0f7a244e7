// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-io/capstan/internal/testing/env"
)

// besideMax is how many cases of a column run beside each other.
const besideMax = 6

func TestConformance(t *testing.T) {
	env.Need(t)
	ctrl.SetLogger(logr.Discard())
	dir := t.TempDir()
	programs := buildPrograms(t, dir)
	results := newTable(modes(), cases())
	var (
		columns sync.WaitGroup
		ready   = make(chan struct{})
		theHub  *hub
	)
	for _, m := range modes() {
		columns.Go(func() {
			t.Run(string(m), func(t *testing.T) {
				c := startMember(t, dir, programs, m)
				<-ready
				if c.hub = theHub; c.hub == nil {
					t.Fatal("there is no hub")
				}
				if c.pods == nil {
					c.pods = c.hub.pods
				}
				c.run(t, results, cases())
			})
		})
	}
	defer func() {
		columns.Wait()
		t.Logf("%d promises, kept in %d modes:\n%s", len(results.cases), len(results.modes), results)
		if err := results.err(); err != nil {
			t.Error(err)
		}
	}()
	func() {
		defer close(ready)
		theHub = startHub(t, dir, programs)
	}()
}

// run runs the cases in their order; those that need not be alone, beside those
// next to them.
func (c *column) run(t *testing.T, results *table, list []testCase) {
	t.Helper()
	for first := 0; first < len(list); {
		last := first
		for last+1 < len(list) && !list[first].alone && !list[last+1].alone {
			last++
		}
		c.beside(t, results, list, first, last)
		if first == 0 && t.Failed() {
			return // nothing works in a cluster that has not joined
		}
		first = last + 1
	}
}

// beside runs a part of the cases.
func (c *column) beside(t *testing.T, results *table, list []testCase, first, last int) {
	t.Helper()
	var running sync.WaitGroup
	slots := make(chan struct{}, besideMax)
	for i := first; i <= last; i++ {
		test := list[i]
		if test.without[c.mode] != "" {
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			t.Run(test.name, func(t *testing.T) {
				defer func() {
					switch {
					case t.Failed():
						results.note(test.name, c.mode, verdictFailed)
					case t.Skipped():
						results.note(test.name, c.mode, verdictSkipped)
					default:
						results.note(test.name, c.mode, verdictPassed)
					}
				}()
				test.run(&scene{T: t, column: c, id: fmt.Sprintf("case-%d", i+1)})
			})
		})
	}
	running.Wait()
}
