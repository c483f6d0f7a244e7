// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

// Loop calls a function again and again: when it asked for it, when someone
// kicked the loop, and after an error. It is what a part uses that has one
// thing to keep true; a part with many objects uses a queue.
type Loop struct {
	// Run does the work and returns the time after which to call it again; zero
	// is for "when kicked". It is never called twice at a time.
	Run func(ctx context.Context) (again time.Duration, err error)
	// Failed is told of an error. It has to return soon. May be nil.
	Failed func(ctx context.Context, err error)
	// RetryMin and RetryMax bound the time until the next call after an error;
	// it doubles with each. They default to RetryAfterMin and RetryAfterMax.
	RetryMin, RetryMax time.Duration
	// Settle is how long a kick waits for further ones before it calls Run.
	// Defaults to zero.
	Settle time.Duration
	// Clock defaults to the real one.
	Clock clock.Clock

	kicked chan struct{}
}

// NewLoop returns a Loop that can be kicked before it starts.
func NewLoop(run func(ctx context.Context) (time.Duration, error)) *Loop {
	return &Loop{
		Run: run, RetryMin: RetryAfterMin, RetryMax: RetryAfterMax, Clock: clock.RealClock{},
		kicked: make(chan struct{}, 1),
	}
}

// Kick makes the loop call its function soon. It never blocks, and many kicks
// may come to one call.
func (l *Loop) Kick() {
	select {
	case l.kicked <- struct{}{}:
	default:
	}
}

// Start calls the function at once, and again as Loop says, until ctx ends. A
// kick cuts short the wait after an error too.
func (l *Loop) Start(ctx context.Context) {
	retry := backoff.ExponentialBetween(l.RetryMin, l.RetryMax)
	for ctx.Err() == nil {
		again, err := l.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			retry = backoff.ExponentialBetween(l.RetryMin, l.RetryMax)
		} else {
			if l.Failed != nil {
				l.Failed(ctx, err)
			}
			again = retry.Step()
		}
		if !l.awaitNextCall(ctx, again) {
			return
		}
	}
}

// awaitNextCall returns true when it is time for the next call, false when ctx ended.
func (l *Loop) awaitNextCall(ctx context.Context, again time.Duration) bool {
	var due <-chan time.Time // nil blocks for ever
	if again > 0 {
		timer := l.Clock.NewTimer(again)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-ctx.Done():
		return false
	case <-due:
		return true
	case <-l.kicked:
	}
	if l.Settle == 0 {
		return true
	}
	settle := l.Clock.NewTimer(l.Settle)
	defer settle.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-settle.C():
	}
	select { // the kicks that came meanwhile are for the same call
	case <-l.kicked:
	default:
	}
	return true
}

// Kicks kicks the loops of all connections of a part. The zero value is ready
// for use; it is safe for concurrent use.
type Kicks struct {
	mu    sync.Mutex
	loops map[*Loop]struct{}
}

// AddLoop adds a loop until ctx ends.
func (k *Kicks) AddLoop(ctx context.Context, loop *Loop) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.loops == nil {
		k.loops = map[*Loop]struct{}{}
	}
	k.loops[loop] = struct{}{}
	context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.loops, loop)
	})
}

// KickAll kicks all loops.
func (k *Kicks) KickAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for loop := range k.loops {
		loop.Kick()
	}
}
