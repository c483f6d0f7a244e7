// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
)

// lane is what parts have in common that run a few at a time.
type lane string

const (
	// processors is the lane of parts that keep all processors busy.
	processors lane = "processors"
	// clusters is the lane of parts with clusters of their own, which wait most of
	// the time.
	clusters lane = "clusters"
)

// width returns how many parts of the lane run at a time.
func (l lane) width() int {
	if l == clusters {
		return 3
	}
	return 1
}

// part is one target of make.
type part struct {
	target string
	lane   lane
	// group is what asks for it: verify, test, or test-e2e, which is a part of test.
	group string
	// needs are targets that have to pass before.
	needs []string
	// tests are the folders whose tests it runs, if it runs no others and its result
	// may be kept, and what else of test it needs: a part without is run each time, and
	// Go knows what it need not do.
	tests []string
	// alone says that its result depends on nothing but these folders.
	alone bool
	// compiles says that it runs nothing of ours but compilers and linters, and no tests:
	// it gets more memory, to spend less time with it.
	compiles bool
}

// releases are the files that say from what the parts upgrade that do.
func releases() []string { return []string{"test/upgrade/releases.txt", "test/upgrade/build.sh"} }

// plan lists the parts in the order in which they begin, within their lane. What
// takes long stands first.
func plan() []part {
	const lab, builds = "lab-build", "test-builds"
	return []part{
		{target: lab, lane: clusters, group: "test-e2e", compiles: true},
		{target: builds, lane: clusters, group: "test-e2e", needs: []string{lab}, compiles: true},
		{target: "test-walkthroughs", lane: clusters, group: "test-e2e", needs: []string{builds}, tests: []string{"test/e2e"}},
		{target: "test-hub-and-spoke", lane: clusters, group: "test-e2e", needs: []string{builds}, tests: []string{"test/e2e"}},
		{target: "test-walkthroughs-hosts", lane: clusters, group: "test-e2e", needs: []string{builds}, tests: []string{"test/e2e"}},
		{target: "test-fault-short", lane: clusters, group: "test-e2e", needs: []string{builds}, tests: []string{"test/fault", "test/internal"}},
		{target: "test-lab", lane: clusters, group: "test-e2e", needs: []string{lab}, tests: []string{"test/lab"}, alone: true},
		{target: "test-integration-programs", lane: clusters, group: "test", needs: []string{lab}},
		{target: "test-walkthroughs-install", lane: clusters, group: "test-e2e", needs: []string{builds}, tests: append(releases(), "test/e2e")},
		{target: "test-olm-ways", lane: clusters, group: "test-e2e", needs: []string{builds}, tests: append(releases(), "test/peers/olm")},

		{target: "verify-generated", lane: processors, group: "verify", compiles: true},
		{target: "lint", lane: processors, group: "verify", compiles: true},
		{target: "test-unit-rest", lane: processors, group: "test"},
		{target: "test-modules", lane: processors, group: "test"},
		{target: "test-race", lane: processors, group: "test"},
		{target: "test-race-controllers", lane: processors, group: "test", needs: []string{lab}},
		{target: "test-integration", lane: processors, group: "test", needs: []string{lab}},
		{target: "test-mutation-short", lane: processors, group: "test", needs: []string{lab}},
	}
}

// chosen returns the parts of the plan that belong to what is asked for: groups or
// targets.
func chosen(all []part, asked []string) ([]part, error) {
	known := map[string]bool{}
	for _, p := range all {
		known[p.target], known[p.group] = true, true
	}
	for _, name := range asked {
		if !known[name] {
			return nil, fmt.Errorf("%s is no part of the checks: ask for verify, test, test-e2e, or one of these: %s", name, strings.Join(targets(all), " "))
		}
	}
	wanted := func(p part) bool {
		return slices.Contains(asked, p.target) || slices.Contains(asked, p.group) || p.group == "test-e2e" && slices.Contains(asked, "test")
	}
	picked := map[string]bool{}
	for _, p := range slices.Backward(all) { // what another needs may stand before it only
		if wanted(p) || slices.ContainsFunc(all, func(other part) bool { return picked[other.target] && slices.Contains(other.needs, p.target) }) {
			picked[p.target] = true
		}
	}
	return slices.DeleteFunc(all, func(p part) bool { return !picked[p.target] }), nil
}

func targets(parts []part) []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.target)
	}
	return names
}
