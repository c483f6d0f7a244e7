// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

// startFunc is a manager.
type startFunc func(context.Context) error

func (f startFunc) Start(ctx context.Context) error { return f(ctx) }

// TestAManagerThatFailsEndsAfterARandomTime keeps replicas from starting again together.
func TestAManagerThatFailsEndsAfterARandomTime(t *testing.T) {
	lost := errors.New("leader election lost")
	fails := startFunc(func(context.Context) error { return lost })
	clk := clocktesting.NewFakeClock(time.Now())
	ended := make(chan error, 1)
	go func() { ended <- runManager(t.Context(), fails, clk) }()
	for !clk.HasWaiters() {
		select {
		case err := <-ended:
			t.Fatalf("the process ends at once: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	clk.Step(endWithin)
	if err := <-ended; !errors.Is(err, lost) {
		t.Errorf("got %v, want why it failed", err)
	}
}

func TestAManagerThatIsToldToEndEndsAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	failed := errors.New("the cache does not end")
	for _, want := range []error{nil, failed} {
		clk := clocktesting.NewFakeClock(time.Now()) // its time stands still
		if err := runManager(ctx, startFunc(func(context.Context) error { return want }), clk); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}
