// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

// deadline is how long a test waits for something that should happen at once.
const deadline = time.Minute

// part records what it is engaged for; it fails as often as it is told to.
type part struct {
	mu       sync.Mutex
	failures int
	engaged  chan *Connection
	ended    chan *Connection
}

func newPart(failures int) *part {
	return &part{failures: failures, engaged: make(chan *Connection, 10), ended: make(chan *Connection, 10)}
}

func (p *part) Name() string { return "probe" }

func (p *part) Engage(ctx context.Context, c *Connection) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures > 0 {
		p.failures--
		return errors.New("no luck")
	}
	c.Go(func() {
		<-ctx.Done()
		p.ended <- c
	})
	p.engaged <- c
	return nil
}

func receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(deadline):
		t.Fatalf("waited %s for %s", deadline, what)
		panic("unreachable")
	}
}

func TestANewConnectionEndsTheOldOneFirst(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPart(0)
	r := NewRegistry(RegistryOptions{Parts: []Part{p}})
	first, second := &Connection{Name: "c1", HubHost: "a"}, &Connection{Name: "c1", HubHost: "b"}
	expect.NoError(t, r.Engage(t.Context(), first))
	receive(t, p.engaged, "the first engagement")
	expect.NoError(t, r.Engage(t.Context(), second))
	select {
	case c := <-p.ended:
		if c != first {
			t.Errorf("ended the connection to %q, want the first", c.HubHost)
		}
	default:
		t.Error("Engage returned before the old connection had ended")
	}
	if got := receive(t, p.engaged, "the second engagement"); got != second {
		t.Errorf("engaged the connection to %q, want the second", got.HubHost)
	}
	r.Close()
	if err := r.Engage(t.Context(), &Connection{Name: "c2"}); err == nil {
		t.Error("a closed registry took a connection")
	}
}

func TestAPanicIsToldToWhoMadeTheConnection(t *testing.T) {
	defer goleak.VerifyNone(t)
	told := make(chan any, 1)
	r := NewRegistry(RegistryOptions{Parts: []Part{newPart(0)}})
	c := &Connection{Name: "c1", Panicked: func(value any, stack []byte) {
		if !strings.Contains(string(stack), "fleet_test.go") {
			t.Errorf("the stack is %s", stack)
		}
		told <- value
	}}
	expect.NoError(t, r.Engage(t.Context(), c))
	c.Go(func() { panic("a mistake") })
	if got := receive(t, told, "the panic"); got != "a mistake" {
		t.Errorf("told was %v", got)
	}
	r.Close() // waits for all that ran
}

func TestAPartThatFailsIsTriedAgainAndShowsInTheCheck(t *testing.T) {
	defer goleak.VerifyNone(t)
	p := newPart(2)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	failed := make(chan error, 10)
	r := NewRegistry(RegistryOptions{
		Parts: []Part{p}, Clock: clk,
		Failed: func(_ context.Context, _ ClusterName, _ string, err error) { failed <- err },
	})
	defer r.Close()
	expect.NoError(t, r.Engage(t.Context(), &Connection{Name: "c1"}))
	for _, wait := range []time.Duration{RetryAfterMin, 2 * RetryAfterMin} {
		_ = receive(t, failed, "a failure")
		if err := r.CheckEngaged("c1"); err == nil || !strings.Contains(err.Error(), "probe: no luck") {
			t.Errorf("Check: %v, want it to name the part and its error", err)
		}
		awaitWaiter(t, clk)
		clk.Step(wait)
	}
	receive(t, p.engaged, "the engagement after two failures")
	awaitTrue(t, "the check to pass", func() bool { return r.CheckEngaged("c1") == nil })
}

func TestOnlyClustersOfThisProcessAreEngaged(t *testing.T) {
	r := NewRegistry(RegistryOptions{Owns: func(name ClusterName) bool { return name == "mine" }})
	defer r.Close()
	if err := r.Engage(t.Context(), &Connection{Name: "other"}); !errors.Is(err, ErrNotOwned) {
		t.Errorf("Engage of a cluster of another process: %v, want ErrNotOwned", err)
	}
	if err := r.Engage(t.Context(), &Connection{Name: "mine"}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]ClusterName{"mine"}, r.EngagedClusters()); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if err := r.CheckEngaged("other"); err == nil {
		t.Error("Check of a cluster that is not engaged: no error")
	}
}

func TestALoopRunsWhenKickedWhenDueAndAfterErrors(t *testing.T) {
	defer goleak.VerifyNone(t)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	results := make(chan error, 10)
	runs := make(chan int, 10)
	count := 0
	loop := NewLoop(func(context.Context) (time.Duration, error) {
		count++
		runs <- count
		return time.Minute, <-results
	})
	loop.Clock = clk
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); loop.Start(ctx) }()

	results <- nil
	receive(t, runs, "the first run")
	awaitWaiter(t, clk)
	results <- errors.New("no luck")
	clk.Step(time.Minute)
	receive(t, runs, "the run that was due")
	awaitWaiter(t, clk)
	results <- nil
	clk.Step(RetryAfterMin)
	receive(t, runs, "the run after an error")
	results <- nil
	loop.Kick()
	receive(t, runs, "the run after a kick")
	cancel()
	receive(t, ended, "the end")
}

func TestALoopGathersKicksThatComeTogether(t *testing.T) {
	defer goleak.VerifyNone(t)
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	runs := make(chan struct{}, 10)
	loop := NewLoop(func(context.Context) (time.Duration, error) { runs <- struct{}{}; return 0, nil })
	loop.Clock, loop.Settle = clk, time.Second
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); loop.Start(ctx) }()
	receive(t, runs, "the first run")
	loop.Kick()
	awaitWaiter(t, clk)
	loop.Kick()
	clk.Step(time.Second)
	receive(t, runs, "the run for both kicks")
	cancel()
	receive(t, ended, "the end")
	if len(runs) != 0 {
		t.Error("the second kick made a run of its own")
	}
}

func awaitWaiter(t *testing.T, clk *clocktesting.FakeClock) {
	t.Helper()
	awaitTrue(t, "somebody to wait on the clock", clk.HasWaiters)
}

func awaitTrue(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %s for %s", deadline, what)
		}
	}
}
