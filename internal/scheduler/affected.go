// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"time"

	"github.com/capstan-io/capstan/internal/fleet/view"
)

// Affected tells whether a change of a cluster, which the request had chosen or
// not, can change what it chooses, so that in a large fleet only the requests
// are scheduled anew that can care. nil is a cluster that does not exist. The
// decisions of other requests, which Balance reads, do not count: or else every
// decision would lead to others.
func (r Request) Affected(before, after *view.Cluster, chosen bool, now time.Time) bool {
	was, is := r.admits(before, chosen, now), r.admits(after, chosen, now)
	if was != is {
		return true
	}
	if !is || r.all && len(r.spread) == 0 {
		return false // it is out of the question, or chosen whatever its score
	}
	for _, weighted := range r.scorers {
		if weighted.Scorer.changed(before, after) {
			return true
		}
	}
	return slices.ContainsFunc(r.spread, func(s SpreadConstraint) bool {
		old, had := s.domain(before)
		value, has := s.domain(after)
		return old != value || had != has
	})
}

// admits tells whether the filters let a cluster through, by itself.
func (r Request) admits(c *view.Cluster, chosen bool, now time.Time) bool {
	if c == nil {
		return false
	}
	alone := &round{now: now, kept: []bool{chosen}}
	code, _ := r.eligible(alone, 0, c)
	return code == codeEligible
}
