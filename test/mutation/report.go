// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// report collects results, and prints each as it comes.
type report struct {
	out   io.Writer
	total int

	lock    sync.Mutex
	results []result
}

// add adds a result.
func (r *report) add(found result) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.results = append(r.results, found)
	fmt.Fprintf(r.out, "%4d/%d %-12s %s%s\n", len(r.results), r.total, found.Outcome, found.Row, found.how())
}

// how says which run decided, and what it said.
func (f result) how() string {
	text := ""
	if f.Mutant != "" {
		text += " by " + strings.TrimSpace(f.Mutant+" "+f.Value)
	}
	if f.Test != "" {
		text += " in " + f.Test
	}
	const most = 200 // characters
	if detail := f.Detail; detail != "" {
		text += ": " + strings.ReplaceAll(detail[:min(len(detail), most)], "\n", " ")
	}
	return text
}

// end prints how many rows had which outcome, and what is to be done. It reports
// whether all is well. The exceptions that are not among the rows count only if all rows
// were checked.
func (r *report) end(exceptions map[string]string, whole bool) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	counts, wrong := map[outcome]int{}, []string{}
	unknown := maps.Clone(exceptions)
	for _, found := range r.results {
		counts[found.Outcome]++
		_, excepted := exceptions[found.Row]
		delete(unknown, found.Row)
		switch {
		case found.Outcome == killed && excepted:
			wrong = append(wrong, fmt.Sprintf("%s: a test notices its mutant, so take it out of the exceptions", found.Row))
		case found.Outcome != killed && !excepted:
			wrong = append(wrong, fmt.Sprintf("%s: %s%s", found.Row, found.Outcome, found.how()))
		}
	}
	if whole {
		for row := range unknown {
			wrong = append(wrong, row+": it is in the exceptions, and there is no such row")
		}
	}
	slices.Sort(wrong)
	for _, line := range wrong {
		fmt.Fprintln(r.out, line)
	}
	for _, o := range outcomes() {
		fmt.Fprintf(r.out, "%-12s %d\n", o, counts[o])
	}
	fmt.Fprintf(r.out, "%-12s %d\n", "exceptions", len(exceptions))
	return len(wrong) == 0
}
