// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Fixtures are what several tests of a package need and each would take long to make: an
// API server with a controller beside it, a hub with its signer. A test that ends hands a
// fixture on to the next as it leaves it, and removes what it has made.
type Fixtures[T any] struct {
	servers *Servers
	build   func(testing.TB) T

	mu     sync.Mutex
	shared *fixture
	// done are the tests that had the shared fixture.
	done map[string]bool
}

// fixture is one of the Fixtures of a kind.
type fixture struct {
	kind  any
	value any
	life  *fixtureLife
	// done are the tests that had it.
	done map[string]bool
}

// fixturesMax is how many fixtures wait for another test: a package runs as many tests at
// a time, and those of one kind follow each other.
const fixturesMax = 2

// NewFixtures returns the fixtures that a function builds on API servers of the package.
// None is built yet. What the function registers as a cleanup, and what it does with the
// context of its test, ends with the fixture. A function that starts an API server skips a test that is to do without.
func NewFixtures[T any](servers *Servers, build func(testing.TB) T) *Fixtures[T] {
	return &Fixtures[T]{servers: servers, build: build}
}

// TakeFixture gives the test a fixture that no other test has until it ends: one that an
// earlier test is done with, or a new one. One that a failed test had is given to nobody, and
// a test that runs again, as with -count, finds nothing of the first time.
func (f *Fixtures[T]) TakeFixture(t testing.TB) T {
	t.Helper()
	got := f.servers.takeFixture(f, t.Name())
	if got == nil {
		got = f.buildFixture(t)
	}
	t.Cleanup(func() { f.servers.giveFixtureBack(t, got) })
	value, _ := got.value.(T)
	return value
}

// ShareFixture gives all tests the same fixture, also at the same time. It ends when all
// tests have run, or when a test runs again, as with -count: that finds nothing of the first time.
func (f *Fixtures[T]) ShareFixture(t testing.TB) T {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done[t.Name()] {
		f.shared.life.endLife()
		f.shared, f.done = nil, nil
	}
	if f.shared == nil {
		f.shared, f.done = f.buildFixture(t), map[string]bool{}
		f.servers.mu.Lock()
		defer f.servers.mu.Unlock()
		f.servers.shared = append(f.servers.shared, f.shared)
	}
	t.Cleanup(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done[t.Name()] = true
	})
	value, _ := f.shared.value.(T)
	return value
}

func (f *Fixtures[T]) buildFixture(t testing.TB) *fixture {
	t.Helper()
	life := newFixtureLife(t)
	defer func() {
		if !life.built.Load() { // the function has failed or skipped the test
			life.endLife()
		}
	}()
	value := f.build(life)
	life.built.Store(true)
	return &fixture{kind: f, value: value, life: life, done: map[string]bool{}}
}

// takeFixture returns an idle fixture of a kind that the test has not had, if there is one.
func (s *Servers) takeFixture(kind any, test string) *fixture {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, idle := range s.fixtures {
		if idle.kind == kind && !idle.done[test] {
			s.fixtures = append(s.fixtures[:i:i], s.fixtures[i+1:]...)
			return idle
		}
	}
	return nil
}

// giveFixtureBack keeps a fixture for the next test, and ends the one that has waited
// longest if there are too many. Nobody knows how that of a test is which failed.
func (s *Servers) giveFixtureBack(t testing.TB, used *fixture) {
	t.Helper()
	if t.Failed() {
		used.life.failed.Store(true)
		used.life.endLife()
		return
	}
	s.mu.Lock()
	used.done[t.Name()] = true
	s.fixtures = append(s.fixtures, used)
	used = nil
	if len(s.fixtures) > fixturesMax {
		used = s.fixtures[0]
		s.fixtures = s.fixtures[1:]
	}
	s.mu.Unlock()
	if used != nil {
		used.life.endLife()
	}
}

// endFixtures ends all fixtures once all tests have run, and reports whether each ended
// without an error.
func (s *Servers) endFixtures() bool {
	s.mu.Lock()
	left := slices.Concat(s.fixtures, s.shared)
	s.ending = true
	s.mu.Unlock()
	well := true
	for _, one := range left {
		one.life.endLife()
		well = well && !one.life.failed.Load()
	}
	return well
}

// WhenDone has a test clean up with the means that it has itself: the context of the test that
// the function gets has not ended, as that of a test has when its cleanups run.
func WhenDone(t testing.TB, cleanUp func(t testing.TB)) {
	t.Helper()
	t.Cleanup(func() { cleanUp(doneTest{TB: t}) })
}

// doneTest is a test whose cleanups run.
type doneTest struct{ testing.TB }

// Context returns one that does not end.
func (t doneTest) Context() context.Context { return context.WithoutCancel(t.TB.Context()) }

// fixtureLife is the test of a fixture as far as its builder is concerned: it begins in the
// test that the fixture is built for, and outlasts it. What fails after that is printed.
type fixtureLife struct {
	testing.TB
	name   string
	ctx    context.Context //nolint:containedctx // it is what a test has as well
	cancel context.CancelFunc

	// flavours are those of the servers that it has.
	flavours []string

	built, failed atomic.Bool
	mu            sync.Mutex
	cleanups      []func()
}

func newFixtureLife(t testing.TB) *fixtureLife {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	return &fixtureLife{TB: t, name: t.Name(), ctx: ctx, cancel: cancel}
}

// endLife carries out the cleanups, the last one first. One that gives up does not keep the
// others from running.
func (l *fixtureLife) endLife() {
	l.cancel()
	l.mu.Lock()
	cleanups := l.cleanups
	l.cleanups = nil
	l.mu.Unlock()
	for _, cleanup := range slices.Backward(cleanups) {
		done := make(chan struct{})
		go func() { defer close(done); cleanup() }()
		<-done
	}
}

// Cleanup registers what is done when the fixture ends.
func (l *fixtureLife) Cleanup(cleanup func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cleanups = append(l.cleanups, cleanup)
}

// Context returns one that ends with the fixture.
func (l *fixtureLife) Context() context.Context { return l.ctx }

// Name returns that of the test which the fixture was built for.
func (l *fixtureLife) Name() string { return l.name }

// TempDir returns a folder that goes with the fixture.
func (l *fixtureLife) TempDir() string {
	folder, err := os.MkdirTemp("", "fixture")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			l.Error(err)
		}
	})
	return folder
}

// Failed reports whether the fixture, or a test that had it, has failed.
func (l *fixtureLife) Failed() bool { return l.failed.Load() || !l.built.Load() && l.TB.Failed() }

// Helper is for lines of a test that has ended.
func (l *fixtureLife) Helper() {
	if !l.built.Load() {
		l.TB.Helper()
	}
}

// Log speaks in the test as long as the fixture is built, as the methods do that follow.
func (l *fixtureLife) Log(args ...any) { l.printText(fmt.Sprintln(args...)) }

// Logf is Log with a format.
func (l *fixtureLife) Logf(format string, args ...any) { l.printText(fmt.Sprintf(format, args...)) }

// Error says that the fixture has failed.
func (l *fixtureLife) Error(args ...any) {
	l.Log(args...)
	l.Fail()
}

// Errorf is Error with a format.
func (l *fixtureLife) Errorf(format string, args ...any) {
	l.Logf(format, args...)
	l.Fail()
}

// Fatal says that the fixture has failed, and ends what runs.
func (l *fixtureLife) Fatal(args ...any) {
	l.Log(args...)
	l.FailNow()
}

// Fatalf is Fatal with a format.
func (l *fixtureLife) Fatalf(format string, args ...any) {
	l.Logf(format, args...)
	l.FailNow()
}

// Fail marks the fixture as failed, and the test that it is built for.
func (l *fixtureLife) Fail() {
	l.failed.Store(true)
	if !l.built.Load() {
		l.TB.Fail()
	}
}

// FailNow is Fail, and ends what runs.
func (l *fixtureLife) FailNow() {
	l.Fail()
	if !l.built.Load() {
		l.TB.FailNow()
	}
	runtime.Goexit()
}

func (l *fixtureLife) printText(text string) {
	if !l.built.Load() {
		l.TB.Log(text)
		return
	}
	fmt.Fprintf(os.Stderr, "the fixture that %s made: %s\n", l.name, text)
}
