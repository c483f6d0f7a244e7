// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"testing"
	"time"
)

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
