// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capstan-io/capstan/internal/testing/timing"
)

const (
	// slowest is how many of the slowest packages are listed.
	slowest = 10
	// linesOfTest and linesOfPart are how much is repeated of what a test that failed
	// said, and of what a part did that ran none.
	linesOfTest, linesOfPart = 12, 25
	lineMax                  = 300
)

// figures are what the tests of a package took.
type figures struct {
	seconds float64
	cached  bool
}

var (
	packageLine = regexp.MustCompile(`^(?:ok|FAIL|---) *\t(\S+)\t(?:([0-9.]+)s|(\(cached\)))`)
	verdictLine = regexp.MustCompile(`^ *--- (FAIL|PASS|SKIP): (\S+)`)
	runLine     = regexp.MustCompile(`^ *=== (?:RUN|NAME|CONT) +(\S+)`)
	// faultLine is what go, make and our own programs begin the line with that says
	// what is wrong.
	faultLine = regexp.MustCompile(`^(FAIL|panic:|make.*Error|fault:|e2e:|install:|olm:|checks:|verify:|fatal error:)`)
)

// packagesOf adds what go test printed about packages.
func packagesOf(log io.Reader, packages map[string]figures) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if found := packageLine.FindStringSubmatch(lines.Text()); found != nil {
			seconds, _ := strconv.ParseFloat(found[2], 64) // none of what was cached
			packages[found[1]] = figures{seconds: packages[found[1]].seconds + seconds, cached: found[3] != ""}
		}
	}
}

// failuresOf returns what failed according to a log: the verdicts on tests and
// packages, and what a test that failed said last. With -v that comes before the
// verdict, without it after.
func failuresOf(log io.Reader) []string {
	var all, others []string
	said := map[string][]string{}
	test, after := "", 0
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		line = line[:min(len(line), lineMax)]
		others = append(others, line)
		if found := runLine.FindStringSubmatch(line); found != nil {
			test, after = found[1], 0
			continue
		}
		if found := verdictLine.FindStringSubmatch(line); found != nil {
			if after = 0; found[1] == "FAIL" {
				all = append(append(all, line), last(said[found[2]], linesOfTest)...)
				after = linesOfTest
			}
			test = ""
			delete(said, found[2])
			continue
		}
		switch {
		case faultLine.MatchString(line):
			all, after = append(all, line), 0
		case test != "":
			said[test] = append(said[test], line)
		case after > 0 && strings.HasPrefix(line, " "):
			all, after = append(all, line), after-1
		default:
			after = 0
		}
	}
	if len(all) == 0 || onlyMake(all) {
		return last(others, linesOfPart) // no test has failed, so what it was stands at the end
	}
	return all
}

// onlyMake reports whether nothing but make says that something failed.
func onlyMake(lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !strings.HasPrefix(line, "make") })
}

func last(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }

// report prints how the parts ended, what was slow, and what failed; at the very end
// how many passed.
func report(out io.Writer, results []result, took time.Duration, timings []timing.Timing) {
	packages := map[string]figures{}
	for _, r := range results {
		if log, err := os.Open(r.log); err == nil {
			packagesOf(log, packages)
			_ = log.Close()
		}
	}
	reportPackages(out, packages)
	reportServers(out, timings)
	fmt.Fprintf(out, "\n== parts, %s in all:\n", took.Round(time.Second))
	counts := map[verdict]int{}
	for _, r := range results {
		counts[r.verdict]++
		fmt.Fprintf(out, "  %-28s %-14s %5.0f s, %5.0f s of CPU  %s\n", r.part.target, r.verdict, r.took.Seconds(), r.cpu.Seconds(), r.why)
	}
	for _, r := range results {
		if log, err := os.Open(r.log); err == nil && r.verdict == failed {
			fmt.Fprintf(out, "\n== what failed of %s:\n%s\n", r.part.target, strings.Join(failuresOf(log), "\n"))
			_ = log.Close()
		}
	}
	fmt.Fprintf(out, "\n%d passed, %d failed, %d skipped\n", counts[passed]+counts[stood], counts[failed], counts[left])
}

func reportPackages(out io.Writer, packages map[string]figures) {
	cached := 0
	names := slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return cmp.Or(cmp.Compare(packages[b].seconds, packages[a].seconds), cmp.Compare(a, b))
	})
	for _, f := range packages {
		if f.cached {
			cached++
		}
	}
	fmt.Fprintf(out, "\n== tests of %d packages ran, and those of %d had passed on the same inputs; the slowest:\n", len(packages)-cached, cached)
	for _, name := range names[:min(slowest, len(names))] {
		if packages[name].seconds > 0 {
			fmt.Fprintf(out, "  %7.1f s  %s\n", packages[name].seconds, name)
		}
	}
}

// reportServers prints what API servers cost, by package, the dearest first.
func reportServers(out io.Writer, timings []timing.Timing) {
	type sum struct {
		count   map[timing.ServerStep]int
		seconds map[timing.ServerStep]float64
		all     float64
	}
	empty := func() *sum { return &sum{count: map[timing.ServerStep]int{}, seconds: map[timing.ServerStep]float64{}} }
	total, folders := empty(), map[string]*sum{}
	for _, t := range timings {
		if folders[t.Folder] == nil {
			folders[t.Folder] = empty()
		}
		for _, s := range []*sum{total, folders[t.Folder]} {
			s.count[t.Step]++
			s.seconds[t.Step] += t.Seconds
			s.all += t.Seconds
		}
	}
	line := func(name string, s *sum) {
		fmt.Fprintf(out, "  %7.1f s  %s:", s.all, name)
		for _, step := range timing.AllSteps() {
			fmt.Fprintf(out, " %d x %s %.1f s", s.count[step], step, s.seconds[step])
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintln(out, "\n== API servers, by what they cost the tests:")
	line("all", total)
	names := slices.SortedFunc(maps.Keys(folders), func(a, b string) int { return cmp.Compare(folders[b].all, folders[a].all) })
	for _, name := range names[:min(slowest, len(names))] {
		line(name, folders[name])
	}
}
