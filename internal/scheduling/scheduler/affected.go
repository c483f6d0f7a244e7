// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"time"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret/expression"
)

// Affected tells whether a change of a cluster, which the request had chosen or
// not, can change what it chooses, so that in a large fleet only the requests
// are scheduled anew that can care. nil is a cluster that does not exist. The
// decisions of other requests, which Balance reads, do not count: or else every
// decision would lead to others.
func (r Request) Affected(before, after *view.Cluster, chosen bool, now time.Time) bool {
	was := r.consider(before, chosen, now)
	is := r.consider(after, chosen, now)
	if was.exhausted || is.exhausted || was.eligible() != is.eligible() || was.failed != is.failed || !was.again.Equal(is.again) {
		return true
	}
	if !is.eligible() || r.all && len(r.spread) == 0 && !r.ranked {
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

// Admits tells whether the filters let a cluster through that the request had
// chosen or not. nil is a cluster that does not exist.
func (r Request) Admits(cluster *view.Cluster, chosen bool, now time.Time) bool {
	return r.consider(cluster, chosen, now).eligible()
}

// Reconsiders tells whether a change of a cluster changes what refuses it. Who
// has fewer clusters than wanted says why, and that would be out of date.
func (r Request) Reconsiders(before, after *view.Cluster, chosen bool, now time.Time) bool {
	return r.consider(before, chosen, now).code != r.consider(after, chosen, now).code
}

// ReadsFields tells whether the request has expressions, which may read
// everything that a cluster's object has.
func (r Request) ReadsFields() bool {
	return slices.ContainsFunc(r.filters, func(f filter) bool {
		predicates, is := f.(predicateFilter)
		return is && slices.ContainsFunc(predicates, func(p compiledPredicate) bool { return len(p.expressions) > 0 })
	})
}

// opinion is what the filters make of a cluster, by itself.
type opinion struct {
	code code
	// failed says that an expression did, and exhausted that they cost too much to
	// know.
	failed, exhausted bool
	// again is when time alone can change it; zero is never.
	again time.Time
}

func (o opinion) eligible() bool { return o.code == codeEligible }

// consider returns what the filters make of a cluster. nil is in no set. It is
// asked for each event, so all expressions together may cost what one may.
func (r Request) consider(c *view.Cluster, chosen bool, now time.Time) opinion {
	if c == nil {
		return opinion{code: codeSet}
	}
	alone := &round{now: now, kept: []bool{chosen}, cost: ExpressionCostMax - expression.CostMax}
	return opinion{code: r.eligible(alone, 0, c), failed: alone.problem != nil, exhausted: alone.exhausted, again: alone.after}
}
