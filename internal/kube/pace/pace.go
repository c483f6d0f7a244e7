// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pace lets each of many, such as namespaces, write so much at once and so much in a
// second, whatever others do. What is written, and what happens to those who wait, is up to others.
package pace

import (
	"maps"
	"sync"
	"time"
)

// sweepMin is from how many owners on those are forgotten that owe nothing.
const sweepMin = 64

// WriteThrottle remembers what each has written of late. It is safe for concurrent use.
type WriteThrottle struct {
	atOnce, inASecond float64

	mu    sync.Mutex
	of    map[string]spent
	sweep int
}

// spent is how much somebody had written at a time, less what he may write again since.
type spent struct {
	writes float64
	at     time.Time
}

// NewWriteThrottle returns a pace of so many writes at once, and so many in a second after that.
func NewWriteThrottle(atOnce, inASecond int) *WriteThrottle {
	return &WriteThrottle{atOnce: float64(atOnce), inASecond: float64(inASecond), of: map[string]spent{}, sweep: sweepMin}
}

// Take returns 0 if somebody may make so many writes now, which count from then on, or else how
// soon he may. Who may write anything may write all that belongs together: what is too much of
// it makes what comes next wait for longer.
func (p *WriteThrottle) Take(owner string, writes int, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if writes == 0 {
		return 0
	}
	has := p.left(p.of[owner], now)
	if over := has - p.atOnce; over >= 0 {
		return time.Duration((over + 1) / p.inASecond * float64(time.Second))
	}
	if len(p.of) >= p.sweep {
		maps.DeleteFunc(p.of, func(_ string, one spent) bool { return p.left(one, now) == 0 })
		p.sweep = max(sweepMin, 2*len(p.of))
	}
	p.of[owner] = spent{writes: has + float64(writes), at: now}
	return 0
}

// left is what still counts of what somebody has written.
func (p *WriteThrottle) left(one spent, now time.Time) float64 {
	return max(0, one.writes-max(0, now.Sub(one.at).Seconds())*p.inASecond)
}
