// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decoding

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	clocktesting "k8s.io/utils/clock/testing"
)

const pacedRate = 1 << 20

// congestedPace has so many senders who want as much as they get, none of which is left to have at once.
func congestedPace(t *testing.T, hostile int) (pace *SharedPace, clk *clocktesting.FakeClock, taken *atomic.Int64) {
	t.Helper()
	clk = clocktesting.NewFakeClock(time.Unix(1000, 0))
	pace = NewSharedPace(clk)
	pace.limit = rate.NewLimiter(pacedRate, PieceMax)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
		if len(pace.waiting) > 0 {
			t.Errorf("%d senders wait whose requests have ended", len(pace.waiting))
		}
	})
	taken = &atomic.Int64{}
	for range hostile {
		sender := pace.AddSender()
		for range 4 { // requests at a time
			all.Go(func() {
				for sender.AwaitTurn(ctx, PieceMax) == nil {
					taken.Add(PieceMax)
				}
			})
		}
	}
	pace.awaitLine(t, hostile)
	return pace, clk, taken
}

// awaitLine waits until so many senders wait, each with all that it wants to.
func (p *SharedPace) awaitLine(t *testing.T, senders int) {
	t.Helper()
	full := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		pieces := 0
		for _, s := range p.waiting {
			pieces += len(s.line)
		}
		return len(p.waiting) == senders && pieces == 4*senders
	}
	for end := time.Now().Add(5 * time.Minute); !full(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they do not wait")
		}
	}
}

// TestManySendersKeepNobodyWaiting has a thousand senders send as much as they may, and one that sends little.
func TestManySendersKeepNobodyWaiting(t *testing.T) {
	const hostile, piece, step = 1000, 1 << 10, 100 * time.Millisecond
	pace, clk, taken := congestedPace(t, hostile)
	start, before := clk.Now(), taken.Load()
	healthy := pace.AddSender()
	for range 10 {
		came := make(chan error, 1)
		go func() { came <- healthy.AwaitTurn(t.Context(), piece) }()
		pace.awaitArrival(t, healthy, came)
		clk.Step(step) // of which it needs less than a tenth
		select {
		case err := <-came:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("a sender who sends little waits while others send much")
		}
		pace.awaitLine(t, hostile)
	}
	if most := clk.Since(start).Seconds()*pacedRate + PieceMax*2; float64(taken.Load()-before) > most {
		t.Errorf("%d bytes were decoded of all senders, want %.0f at most", taken.Load()-before, most)
	}
	if taken.Load() == before {
		t.Error("the others have no turn")
	}
}

// awaitArrival waits until a sender is in line, or has had its turn.
func (p *SharedPace) awaitArrival(t *testing.T, s *PacedSender, came chan error) {
	t.Helper()
	here := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(s.line) > 0 || len(came) > 0
	}
	for end := time.Now().Add(5 * time.Minute); !here(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

// TestSendersHaveEqualParts has two senders want all there is, one of them by more requests.
func TestSendersHaveEqualParts(t *testing.T) {
	pace, clk, taken := congestedPace(t, 2)
	for taken.Load() < 100*PieceMax {
		clk.Step(PieceMax * time.Second / pacedRate)
		time.Sleep(time.Millisecond)
	}
	pace.awaitLine(t, 2)
	pace.mu.Lock()
	defer pace.mu.Unlock()
	if one, other := pace.waiting[0].had, pace.waiting[1].had; max(one, other)-min(one, other) > 2*PieceMax {
		t.Errorf("one had %d bytes, the other %d, want the same", one, other)
	}
}

// TestWhoComesIsAhead has a sender come to others who have had much by then.
func TestWhoComesIsAhead(t *testing.T) {
	const hostile, had = 10, 4 * paceHeadStart
	pace, clk, taken := congestedPace(t, hostile)
	pace.mu.Lock()
	for _, s := range pace.waiting {
		s.had += had
	}
	pace.begun = had
	pace.mu.Unlock()
	before := taken.Load()
	healthy := pace.AddSender()
	for range paceHeadStart / PieceMax / 2 {
		came := make(chan error, 1)
		go func() { came <- healthy.AwaitTurn(t.Context(), PieceMax) }()
		pace.awaitArrival(t, healthy, came)
		for len(came) == 0 {
			clk.Step(PieceMax * time.Second / pacedRate)
			time.Sleep(time.Millisecond)
		}
		if err := <-came; err != nil {
			t.Fatal(err)
		}
	}
	if others := taken.Load() - before; others > 2*paceHeadStart {
		t.Errorf("others had %d bytes while it waited", others)
	}
}

// TestNobodyWaitsWhileThereIsTime has senders send what there is time for.
func TestNobodyWaitsWhileThereIsTime(t *testing.T) {
	pace := NewSharedPace(clocktesting.NewFakeClock(time.Unix(1000, 0)))
	sender := pace.AddSender()
	for range pacedAtOnce / PieceMax {
		if err := sender.AwaitTurn(t.Context(), PieceMax); err != nil {
			t.Fatal(err)
		}
	}
	var none *PacedSender
	if err := none.AwaitTurn(t.Context(), PieceMax); err != nil {
		t.Errorf("without a pace: %v", err)
	}
	if err := sender.AwaitTurn(t.Context(), PieceMax); err != nil { // which is owed then
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sender.AwaitTurn(ended, PieceMax); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it waits until the context ends", err)
	}
	if len(pace.waiting) > 0 {
		t.Error("who has gone still waits")
	}
}
