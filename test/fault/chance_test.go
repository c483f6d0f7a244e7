// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// seed is given to replay a run: what is chosen at random, is chosen again.
// When the agent and the API servers do what is theirs is not.
var seed = flag.Uint64("seed", 0, "seed of all that is chosen at random; 0 takes a new one")

// dice are what one test throws. They may be thrown by several goroutines.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

// newDice returns the dice for the nth use of a test, and logs what a later run
// needs to throw the same.
func newDice(t *testing.T, n int) *dice {
	t.Helper()
	t.Logf("replay with FAULT_ARGS='-seed %d'", *seed)
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(t.Name())) // a hash takes all
	return &dice{random: rand.New(rand.NewPCG(*seed, hash.Sum64()+uint64(n)))}
}

// intN returns a number of 0 to n-1.
func (d *dice) intN(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.random.IntN(n)
}

// oneIn is true once in n times.
func (d *dice) oneIn(n int) bool { return d.intN(n) == 0 }

// extent is how much of a fault there is. What breaks is the same in each.
type extent struct {
	outage  time.Duration // how long something is away
	kills   int           // how often a process is killed
	rounds  int           // how often watches end
	changes int           // made to one work
	works   int           // deleted at once
}

// theExtent is that of this run: short with -short, for every change of the
// code; with -long outages last until leases and certificates notice.
func theExtent() extent {
	switch {
	case *long:
		return extent{outage: 3 * time.Minute, kills: 8, rounds: 16, changes: 500, works: 1000}
	case testing.Short():
		return extent{outage: 3 * time.Second, kills: 3, rounds: 6, changes: 100, works: 200}
	default:
		return extent{outage: 8 * time.Second, kills: 8, rounds: 16, changes: 500, works: 1000}
	}
}
