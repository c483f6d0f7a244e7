// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-io/capstan/internal/testing/timing"
)

// TestThePlanCanBeCarriedOut: what a part needs stands before it, and each target is
// one of make.
func TestThePlanCanBeCarriedOut(t *testing.T) {
	var before []string
	for _, p := range plan() {
		for _, need := range p.needs {
			if !slices.Contains(before, need) {
				t.Errorf("%s needs %s, which does not stand before it", p.target, need)
			}
		}
		if slices.Contains(before, p.target) {
			t.Errorf("%s is there twice", p.target)
		}
		before = append(before, p.target)
	}
	recipes := recipesOfMake(t)
	for _, target := range before {
		if _, ok := recipes[target]; !ok {
			t.Errorf("make has no target %s", target)
		}
	}
}

// TestNoPackageIsForgotten: there is a part for each kind of packages.
func TestNoPackageIsForgotten(t *testing.T) {
	recipes := recipesOfMake(t)
	for _, kind := range []string{"raced", "controllers", "servers", "programs", "rest"} {
		if !slices.ContainsFunc(plan(), func(p part) bool { return strings.Contains(recipes[p.target], "hack/packages.sh "+kind+")") }) {
			t.Errorf("no part of the plan tests the packages that hack/packages.sh calls %s", kind)
		}
	}
}

// recipesOfMake returns what make does for each target, as it is written.
func recipesOfMake(t *testing.T) map[string]string {
	t.Helper()
	makefiles, err := filepath.Glob("../../hack/make/*.mk")
	if err != nil {
		t.Fatal(err)
	}
	recipes := map[string]string{}
	rule := regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):.*\n((?:\t.*\n)*)`)
	for _, file := range makefiles {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range rule.FindAllStringSubmatch(string(content)+"\n", -1) {
			recipes[found[1]] += found[2]
		}
	}
	return recipes
}

func TestWhatIsAskedForIsChosen(t *testing.T) {
	all := []part{
		{target: "build", group: "test-e2e"},
		{target: "lab", group: "test-e2e", needs: []string{"build"}},
		{target: "lint", group: "verify"},
		{target: "unit", group: "test"},
		{target: "servers", group: "test", needs: []string{"build"}},
	}
	for name, c := range map[string]struct{ asked, want []string }{
		"a group":                        {asked: []string{"verify"}, want: []string{"lint"}},
		"test has the e2e part":          {asked: []string{"test"}, want: []string{"build", "lab", "unit", "servers"}},
		"a target comes with its needs":  {asked: []string{"servers"}, want: []string{"build", "servers"}},
		"two groups, each part one time": {asked: []string{"verify", "test"}, want: []string{"build", "lab", "lint", "unit", "servers"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := chosen(slices.Clone(all), c.asked)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, targets(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := chosen(all, []string{"tset"}); err == nil || !strings.Contains(err.Error(), "tset is no part of the checks: ask for verify") {
		t.Errorf("an unknown part: %v", err)
	}
}

// shell runs the target as a script.
func shell(ctx context.Context, p part) *exec.Cmd {
	return exec.CommandContext(ctx, "sh", "-c", p.target)
}

func verdicts(results []result) map[string]verdict {
	all := map[string]verdict{}
	for _, r := range results {
		all[r.part.target] = r.verdict
	}
	return all
}

func TestAFailureEndsOnlyWhatNeedsIt(t *testing.T) {
	var out bytes.Buffer
	r := runner{out: &out, logs: t.TempDir(), command: shell}
	parts := []part{
		{target: "false", lane: clusters},
		{target: "true # of it", lane: clusters, needs: []string{"false"}},
		{target: "true # of that", lane: clusters, needs: []string{"true # of it"}},
		{target: "echo said", lane: processors},
	}
	want := map[string]verdict{"false": failed, "true # of it": left, "true # of that": left, "echo said": passed}
	if diff := cmp.Diff(want, verdicts(r.run(t.Context(), parts))); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(out.String(), "\nsaid\n== echo said passed") {
		t.Errorf("what a part printed is not there:\n%s", out.String())
	}
}

// TestALaneIsNoWiderThanItMayBe has each part write down that it runs, and count those
// that do.
func TestALaneIsNoWiderThanItMayBe(t *testing.T) {
	running := t.TempDir()
	r := runner{out: &bytes.Buffer{}, logs: t.TempDir(), command: func(ctx context.Context, _ part) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "cd "+running+"; touch $$; ls | wc -l; sleep 0.1; rm $$")
	}}
	var parts []part
	for _, target := range []string{"a", "b", "c", "d", "e", "f"} {
		parts = append(parts, part{target: target, lane: processors}, part{target: target + "-cluster", lane: clusters})
	}
	most := map[lane]int{}
	for _, ended := range r.run(t.Context(), parts) {
		text, err := os.ReadFile(ended.log)
		if err != nil {
			t.Fatal(err)
		}
		count, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		most[ended.part.lane] = max(most[ended.part.lane], count)
	}
	if limit := processors.width() + clusters.width(); max(most[processors], most[clusters]) > limit {
		t.Errorf("%v ran side by side, more than %d", most, limit)
	}
	if most[clusters] < 2 {
		t.Error("no two parts ran side by side")
	}
}

func TestClustersGetWhatProcessorsDoNotWantAnyLonger(t *testing.T) {
	parts := []part{{target: "compile", lane: processors}, {target: "lab", lane: clusters}}
	r := runner{results: map[string]result{"compile": {}}}
	if width := r.width(parts, clusters); width != clusters.width() {
		t.Errorf("%d labs may run while something compiles, want %d", width, clusters.width())
	}
	r.results["compile"] = result{verdict: failed}
	if width := r.width(parts, clusters); width != clusters.width()+1 {
		t.Errorf("%d labs may run when all that computes has ended, want %d", width, clusters.width()+1)
	}
	if width := r.width(parts, processors); width != processors.width() {
		t.Errorf("%d parts that compute may run side by side, want %d", width, processors.width())
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"without -v what a test said comes after": {
			log:  "ok  \tour/first\t1.0s\n--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/b (0.00s)\n        a_test.go:3: no\nFAIL\nFAIL\tour/second\t0.1s\nFAIL\n",
			want: "--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/b (0.00s)\n        a_test.go:3: no\nFAIL\nFAIL\tour/second\t0.1s\nFAIL",
		},
		"with -v it comes before": {
			log:  "=== RUN   TestA\n    a_test.go:3: no\n--- FAIL: TestA (0.01s)\n=== RUN   TestB\n    b_test.go:3: fine\n--- PASS: TestB (0.01s)\nFAIL\n",
			want: "--- FAIL: TestA (0.01s)\n    a_test.go:3: no\nFAIL",
		},
		"where no test failed, the end of the log": {
			log:  "cc: no such file\nmake: *** [x] Error 1\n",
			want: "cc: no such file\nmake: *** [x] Error 1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Split(c.want, "\n"), failuresOf(strings.NewReader(c.log))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStampsAreForTheSameInputs changes files of a repository: those that a part
// depends on make it run again, and no others.
func TestStampsAreForTheSameInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=somebody", "-c", "user.email=somebody@example.com"}, args...)
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(file, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept := t.TempDir()
	stampsOf := func() *stamps {
		t.Helper()
		s, err := openStamps(t.Context(), kept)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	product := part{target: "test-hub-and-spoke", tests: []string{"test/e2e"}}
	ofLab := part{target: "test-lab", tests: []string{"test/lab"}, alone: true}
	git("init", "--quiet")
	cases := []struct {
		file string
		runs []part
	}{
		{"README.md", nil},
		{"main_test.go", nil},
		{"internal/testdata/input.yaml", nil},
		{"internal/testing/env/env.go", nil},
		{"test/bench/bench.go", nil},
		{"hack/soak.sh", nil},
		{"main.go", []part{product}},
		{"hack/deploy/image.sh", []part{product}},
		{"test/lab/internal/lab.go", []part{product, ofLab}},
		{"test/lab/e2e/lab_test.go", []part{ofLab}},
		{"test/e2e/work_test.go", []part{product}},
		{"test/e2e/testdata/input.yaml", []part{product}},
	}
	for _, c := range cases {
		write(c.file, "1")
	}
	git("add", ".")
	git("commit", "--quiet", "-m", "first")
	for _, p := range []part{product, ofLab} {
		if when := stampsOf().find(p); when != "" {
			t.Errorf("%s has passed before it ran: %s", p.target, when)
		}
		stampsOf().keep(p)
	}
	for _, c := range cases {
		write(c.file, "2")
		if _, err := openStamps(t.Context(), kept); err == nil {
			t.Errorf("there are stamps of a tree where %s is not as it was committed", c.file)
		}
		git("commit", "--quiet", "-a", "-m", c.file)
		for _, p := range []part{product, ofLab} {
			want := slices.ContainsFunc(c.runs, func(run part) bool { return run.target == p.target })
			if runs := stampsOf().find(p) == ""; runs != want {
				t.Errorf("after a change of %s %s runs again: %t", c.file, p.target, runs)
			}
			stampsOf().keep(p)
		}
	}
	if when := stampsOf().find(part{target: "lint"}); when != "" {
		t.Error("a part that always runs has a stamp")
	}
	old := time.Now().Add(-stampLife - time.Hour)
	if err := os.Chtimes(stampsOf().path(product), old, old); err != nil {
		t.Fatal(err)
	}
	before := stampsOf().path(product) // opening them deletes the old ones
	if _, err := os.Stat(before); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a stamp that counts no more is still there: %v", err)
	}
}

// TestPartsUseNothingOfElsewhere: the tests of a part that keeps its result import
// nothing that may change without it being run again.
func TestPartsUseNothingOfElsewhere(t *testing.T) {
	module := outputOf(t, "go", "list", "-m")
	for _, p := range plan() {
		for _, folder := range p.tests {
			if _, err := os.Stat(filepath.Join("../..", folder, "go.mod")); err == nil || filepath.Ext(folder) != "" {
				continue // it imports nothing of ours but what is in its folder, or is a file
			}
			var files []string
			for pkg := range strings.Lines(outputOf(t, "go", "list", "-deps", "-test", "-tags", "e2e,fault", "../../"+folder+"/...")) {
				name, _, _ := strings.Cut(strings.TrimSpace(pkg), " ")
				if file, ours := strings.CutPrefix(name, module+"/"); ours && !strings.HasSuffix(name, ".test") {
					files = append(files, "\t"+file+"/x.go")
				}
			}
			s := stamps{files: files}
			if counted := strings.Count(s.inputs(p), "\t"); counted != len(files) || counted == 0 {
				t.Errorf("%s: of %d packages that its tests use, %d count as its inputs: %q", p.target, len(files), counted, files)
			}
		}
	}
}

func outputOf(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestEachModuleIsLinted: a module with code of ours is one of those that lint goes
// through.
func TestEachModuleIsLinted(t *testing.T) {
	makefile, err := os.ReadFile("../../hack/make/verify.mk")
	if err != nil {
		t.Fatal(err)
	}
	linted := regexp.MustCompile(`(?m)^LINTED_MODULES := (.*)$`).FindStringSubmatch(string(makefile))
	if linted == nil {
		t.Fatal("hack/make/verify.mk does not say LINTED_MODULES")
	}
	known := append(strings.Fields(linted[1]), ".", "test/lab", // with targets of their own
		"hack/lint", "test/lab/older") // which only name programs of others
	for file := range strings.Lines(outputOf(t, "git", "ls-files", "--full-name", ":/*go.mod")) {
		if folder := filepath.Dir(strings.TrimSpace(file)); !slices.Contains(known, folder) {
			t.Errorf("lint leaves out the module in %s", folder)
		}
	}
}

// TestRecipesUseScriptsThatExist: a script that is gone would be missed only when
// somebody needs it.
func TestRecipesUseScriptsThatExist(t *testing.T) {
	script, looked := regexp.MustCompile(`\bhack/[a-z0-9/-]+\.sh\b`), 0
	for target, recipe := range recipesOfMake(t) {
		for _, file := range script.FindAllString(recipe, -1) {
			looked++
			if _, err := os.Stat(filepath.Join("../..", file)); err != nil {
				t.Errorf("make %s: %v", target, err)
			}
		}
	}
	if looked < 10 {
		t.Errorf("only %d scripts were found: look at the expression that finds them", looked)
	}
}

func TestTheReport(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, []byte("ok  \tour/slow\t20.5s\nok  \tour/kept\t(cached)\n--- FAIL: TestA (1.00s)\nFAIL\tour/wrong\t2.0s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	report(&out, []result{
		{part: part{target: "test"}, verdict: failed, why: "exit status 2", took: time.Minute, log: log},
		{part: part{target: "labs"}, verdict: stood, why: "yesterday"},
		{part: part{target: "other"}, verdict: left, why: "test FAILED"},
	}, time.Hour, []timing.Timing{
		{Folder: "/our/slow", Step: timing.Start, Seconds: 3}, {Folder: "/our/slow", Step: timing.Reset, Seconds: 1}, {Folder: "/our/other", Step: timing.Start, Seconds: 5},
	})
	for _, want := range []string{
		"tests of 2 packages ran, and those of 1 had passed on the same inputs", "     20.5 s  our/slow\n",
		"9.0 s  all: 2 x start 8.0 s 0 x definitions 0.0 s 1 x reset 1.0 s", "/our/other: 1 x start 5.0 s",
		"what failed of test:\n--- FAIL: TestA", "\n1 passed, 1 failed, 1 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s", want, out.String())
		}
	}
}

// TestCompilersCollectLess has those who say themselves how often garbage is collected be
// obeyed, and no part that runs tests get the memory of compilers: some tests measure theirs.
func TestCompilersCollectLess(t *testing.T) {
	if got, want := collectingLess([]string{"A=b"}), []string{"A=b", "GOGC=400", "GOMEMLIMIT=6GiB"}; !slices.Equal(got, want) {
		t.Errorf("compilers get %v, want %v", got, want)
	}
	for _, own := range []string{"GOGC=50", "GOMEMLIMIT=1GiB"} {
		if got := collectingLess([]string{own}); !slices.Equal(got, []string{own}) {
			t.Errorf("whoever says %s gets %v", own, got)
		}
	}
	for _, p := range plan() {
		tests := strings.HasPrefix(p.target, "test-") && p.target != "test-builds"
		if env := makeTarget(t.Context(), p).Env; (env == nil) != tests {
			t.Errorf("the environment of %s is its own: %t, want %t", p.target, env != nil, !tests)
		}
	}
}
