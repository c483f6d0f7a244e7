// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"time"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret/expression"
)

// AffectedByChange reports whether a change of a cluster, which the request had chosen or
// not, can change what it chooses, so that in a large fleet only the requests
// are scheduled anew that can care. nil is a cluster that does not exist. The
// decisions of other requests, which Balance reads, do not count: or else every
// decision would lead to others.
func (r ClusterRequest) AffectedByChange(before, after *view.Cluster, chosen bool, now time.Time) bool {
	was := r.considerCluster(before, chosen, now)
	is := r.considerCluster(after, chosen, now)
	if was.exhausted || is.exhausted || was.isEligible() != is.isEligible() || was.failed != is.failed || !was.again.Equal(is.again) {
		return true
	}
	if !is.isEligible() || r.all && len(r.spread) == 0 && !r.ranked {
		return false // it is out of the question, or chosen whatever its score
	}
	for _, weighted := range r.scorers {
		if weighted.Scorer.scoreMayChange(before, after) {
			return true
		}
	}
	return slices.ContainsFunc(r.spread, func(s SpreadConstraint) bool {
		old, had := s.topologyDomain(before)
		value, has := s.topologyDomain(after)
		return old != value || had != has
	})
}

// AdmitsCluster reports whether the filters let a cluster through that the request had
// chosen or not. nil is a cluster that does not exist.
func (r ClusterRequest) AdmitsCluster(cluster *view.Cluster, chosen bool, now time.Time) bool {
	return r.considerCluster(cluster, chosen, now).isEligible()
}

// Reconsiders reports whether a change of a cluster changes what refuses it. Who
// has fewer clusters than wanted says why, and that would be out of date.
func (r ClusterRequest) Reconsiders(before, after *view.Cluster, chosen bool, now time.Time) bool {
	return r.considerCluster(before, chosen, now).code != r.considerCluster(after, chosen, now).code
}

// ReadsFields reports whether the request has expressions, which may read
// everything that a cluster's object has.
func (r ClusterRequest) ReadsFields() bool {
	return slices.ContainsFunc(r.filters, func(f clusterFilter) bool {
		predicates, is := f.(predicateFilter)
		return is && slices.ContainsFunc(predicates, func(p compiledPredicate) bool { return len(p.expressions) > 0 })
	})
}

// filterOpinion is what the filters make of a cluster, by itself.
type filterOpinion struct {
	code verdictCode
	// failed says that an expression did, and exhausted that they cost too much to
	// know.
	failed, exhausted bool
	// again is when time alone can change it; zero is never.
	again time.Time
}

func (o filterOpinion) isEligible() bool { return o.code == codeEligible }

// considerCluster returns what the filters make of a cluster. nil is in no set. It is
// asked for each event, so all expressions together may cost what one may.
func (r ClusterRequest) considerCluster(c *view.Cluster, chosen bool, now time.Time) filterOpinion {
	if c == nil {
		return filterOpinion{code: codeSet}
	}
	alone := &schedulingCycle{now: now, kept: []bool{chosen}, cost: ExpressionCostMax - expression.CostMax}
	return filterOpinion{code: r.eligibilityCode(alone, 0, c), failed: alone.problem != nil, exhausted: alone.exhausted, again: alone.after}
}
