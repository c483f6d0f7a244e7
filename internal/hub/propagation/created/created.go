// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package created remembers for a moment which works were created, so that who
// reads a cache that does not show them yet does not create them again.
package created

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

const (
	// keepMax is for how long a cache may be behind.
	keepMax = 30 * time.Second
	// sweepMin is from how many works on those are looked for that are long ago.
	sweepMin = 1000
)

// Works are those that were created lately. It is safe for concurrent use.
type Works struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
	sweep int // how many there have to be for the next sweep
}

// NewCreatedWorks returns Works without any.
func NewCreatedWorks(clk clock.PassiveClock) *Works {
	return &Works{clock: clk, since: map[types.NamespacedName]time.Time{}, sweep: sweepMin}
}

// BeginCreate notes that a work is being created; false if it was already.
func (w *Works) BeginCreate(work types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	if since, is := w.since[work]; is && now.Sub(since) < keepMax {
		return false
	}
	w.since[work] = now
	if len(w.since) >= w.sweep {
		for key, since := range w.since {
			if now.Sub(since) >= keepMax {
				delete(w.since, key)
			}
		}
		w.sweep = max(sweepMin, 2*len(w.since))
	}
	return true
}

// IsAwaited reports whether works of the name were created that the cache may not show
// yet.
func (w *Works) IsAwaited(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	for key, since := range w.since {
		if key.Name == name && now.Sub(since) < keepMax {
			return true
		}
	}
	return false
}

// ForgetWork notes that a work was not created, has been seen in the cache, or has been
// deleted.
func (w *Works) ForgetWork(work types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, work)
}
