// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// verdict is how a part ended.
type verdict string

const (
	passed verdict = "passed"
	failed verdict = "FAILED"
	// stood is that of a part that passed earlier on the same inputs.
	stood verdict = "passed before"
	// left is that of a part that could not run.
	left verdict = "did not run"
)

// result is how a part ended, and what it took.
type result struct {
	part    part
	verdict verdict
	// why it did not run, or what of its inputs it passed on before.
	why string
	// took is by the clock, and cpu what its processes used that it waited for.
	took, cpu time.Duration
	// log is the file with what it printed.
	log string
}

// end is how long a part may take to end what it has started, once it is told to.
const end = 2 * time.Minute

// runner runs parts, a few of each lane at a time. What fails does not end the others.
type runner struct {
	out io.Writer
	// logs is the folder for what the parts print.
	logs string
	// stamps are of parts that passed before; nil if no result is kept.
	stamps *stamps
	// command returns what runs a part.
	command func(context.Context, part) *exec.Cmd

	mu      sync.Mutex
	changed *sync.Cond
	running map[lane]int
	results map[string]result
}

// makeTarget is the command of a part: make goes on after a failure, and what ends
// the checks ends the part as a whole.
func makeTarget(ctx context.Context, p part) *exec.Cmd {
	command := exec.CommandContext(ctx, "make", "--no-print-directory", "--keep-going", p.target)
	if p.compiles {
		command.Env = collectingLess(os.Environ())
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = end
	return command
}

// collectingLess returns the environment for programs of Go that collect garbage less often,
// unless it says itself how often. Compilers take a sixth less time with it.
func collectingLess(env []string) []string {
	said := func(name string) bool {
		return slices.ContainsFunc(env, func(one string) bool { return strings.HasPrefix(one, name+"=") })
	}
	if said("GOGC") || said("GOMEMLIMIT") {
		return env
	}
	return append(slices.Clip(env), "GOGC=400", "GOMEMLIMIT=6GiB")
}

// run runs the parts and returns how they ended, in their order.
func (r *runner) run(ctx context.Context, parts []part) []result {
	r.changed = sync.NewCond(&r.mu)
	r.running, r.results = map[lane]int{}, map[string]result{}
	var all sync.WaitGroup
	for _, p := range parts {
		all.Go(func() { r.finish(p, r.runOne(ctx, parts, p)) })
	}
	all.Wait()
	var results []result
	for _, p := range parts {
		results = append(results, r.results[p.target])
	}
	return results
}

// runOne waits until it is the turn of a part, and runs it.
func (r *runner) runOne(ctx context.Context, parts []part, p part) result {
	if why := r.turn(parts, p); why != "" {
		return result{part: p, verdict: left, why: why}
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.running[p.lane]--
		r.changed.Broadcast()
	}()
	if ctx.Err() != nil {
		return result{part: p, verdict: left, why: "the checks were ended"}
	}
	if when := r.stamps.find(p); when != "" {
		return result{part: p, verdict: stood, why: when}
	}
	r.say("== %s begins\n", p.target)
	done := result{part: p, verdict: passed, log: filepath.Join(r.logs, p.target+".log")}
	begun := time.Now()
	command := r.command(ctx, p)
	err := logged(command, done.log)
	done.took = time.Since(begun)
	if state := command.ProcessState; state != nil {
		done.cpu = state.UserTime() + state.SystemTime()
	}
	if err == nil {
		r.stamps.keep(p)
		return done
	}
	done.verdict, done.why = failed, err.Error()
	return done
}

func logged(command *exec.Cmd, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keeping what it prints: %w", err)
	}
	defer file.Close() //nolint:errcheck // what was printed is in it, or it is a test's
	command.Stdout, command.Stderr = file, file
	return command.Run() //nolint:wrapcheck // the caller says of what
}

// turn waits until what the part needs has passed, its lane is free, and all that
// stand before it in its lane have begun. It returns why it will never be, if so.
func (r *runner) turn(parts []part, p part) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		waits := false
		for _, need := range p.needs {
			switch ended := r.results[need].verdict; ended {
			case "": // it runs, or waits itself
				waits = true
			case failed, left:
				return need + " " + string(ended)
			}
		}
		if !waits && r.running[p.lane] < r.width(parts, p.lane) && !r.precedes(parts, p) {
			r.running[p.lane]++
			r.results[p.target] = result{part: p} // it has begun
			r.changed.Broadcast()
			return ""
		}
		r.changed.Wait()
	}
}

// width returns how many parts of a lane run at a time now: those with clusters are one more
// when nothing else wants the processors any longer.
func (r *runner) width(parts []part, of lane) int {
	busy := func(other part) bool { return other.lane == processors && r.results[other.target].verdict == "" }
	if of == clusters && !slices.ContainsFunc(parts, busy) {
		return of.width() + 1
	}
	return of.width()
}

// precedes reports whether a part that stands before this one in its lane could begin
// now, too.
func (r *runner) precedes(parts []part, p part) bool {
	for _, other := range parts[:slices.IndexFunc(parts, func(other part) bool { return other.target == p.target })] {
		_, begun := r.results[other.target]
		if other.lane == p.lane && !begun && !slices.ContainsFunc(other.needs, func(need string) bool { return r.results[need].verdict == "" }) {
			return true
		}
	}
	return false
}

// finish writes down how a part ended, and prints what it said.
func (r *runner) finish(p part, ended result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.results[p.target] = ended
	r.changed.Broadcast()
	if ended.log != "" {
		fmt.Fprintf(r.out, "== what %s printed:\n", p.target)
		if text, err := os.ReadFile(ended.log); err == nil {
			_, _ = r.out.Write(text)
		}
	}
	fmt.Fprintf(r.out, "== %s %s after %s%s\n", p.target, ended.verdict, ended.took.Round(time.Second), strings.TrimRight(": "+ended.why, ": "))
}

func (r *runner) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}
