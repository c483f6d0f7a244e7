// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// quietTime is how long the same is not told again about a cluster.
	quietTime = 5 * time.Minute
	// quietMax is how many different things are remembered. Beyond, nothing more
	// is told until the oldest are forgotten.
	quietMax = 4096
)

// eventThrottle keeps events from becoming a flood of their own.
type eventThrottle struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	told  map[string]time.Time
}

func newEventThrottle(clk clock.PassiveClock) *eventThrottle {
	return &eventThrottle{clock: clk, told: map[string]time.Time{}}
}

// allowEvent reports whether it is time to tell something (again), and takes it for
// told if so.
func (q *eventThrottle) allowEvent(what string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	if at, ok := q.told[what]; ok && now.Sub(at) < quietTime {
		return false
	}
	if len(q.told) >= quietMax {
		for key, at := range q.told {
			if now.Sub(at) >= quietTime {
				delete(q.told, key)
			}
		}
		if len(q.told) >= quietMax {
			return false
		}
	}
	q.told[what] = now
	return true
}
