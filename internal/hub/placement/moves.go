// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"slices"
)

// decisionWrites are what is written to get from some slices to others, in two steps:
// no cluster is missing at any time, also if the second is never made. A cluster
// that moves is in two slices between them.
type decisionWrites struct {
	// First are slices to create or change.
	First []decisionSlice
	// Then are slices to change again, and Gone those to delete.
	Then []decisionSlice
	Gone []decisionSlice
}

// isEmpty reports whether there is nothing to write.
func (w decisionWrites) isEmpty() bool { return len(w.First)+len(w.Then)+len(w.Gone) == 0 }

// number is how many there are.
func (w decisionWrites) number() int { return len(w.First) + len(w.Then) + len(w.Gone) }

// planDecisionWrites returns the writes that lead from the slices before to those after, both
// in the order of their numbers. A slice of a number is of the same group in both.
// In between, a full slice can list more than clusterv1beta1.DecisionsMax clusters.
func planDecisionWrites(before, after []decisionSlice) decisionWrites {
	was := map[int]decisionSlice{}
	for _, s := range before {
		was[s.Number] = s
	}
	stays := map[string]bool{}
	for _, s := range after {
		for _, c := range s.Clusters {
			stays[c] = true
		}
	}
	var w decisionWrites
	for _, s := range after {
		old, existed := was[s.Number]
		delete(was, s.Number)
		if existed && !old.Edited && old.sameContent(s) {
			continue
		}
		first, moves := s.withMovingClusters(old, stays)
		if !moves {
			w.First = append(w.First, s)
			continue
		}
		if !first.sameContent(old) {
			w.First = append(w.First, first)
		}
		w.Then = append(w.Then, s)
	}
	for _, s := range before {
		if _, gone := was[s.Number]; gone {
			w.Gone = append(w.Gone, s)
		}
	}
	return w
}

// withMovingClusters returns the slice with those clusters of the old one that stay in another
// slice, and whether there are any.
func (s decisionSlice) withMovingClusters(old decisionSlice, stays map[string]bool) (decisionSlice, bool) {
	own := make(map[string]bool, len(s.Clusters))
	for _, c := range s.Clusters {
		own[c] = true
	}
	moving := slices.DeleteFunc(slices.Clone(old.Clusters), func(c string) bool { return own[c] || !stays[c] })
	if len(moving) == 0 {
		return s, false
	}
	both := s
	both.Clusters = slices.Concat(s.Clusters, moving)
	if s.Scores == nil {
		slices.Sort(both.Clusters)
		return both, true
	}
	scores := maps.Clone(s.Scores)
	for _, c := range moving {
		scores[c] = old.Scores[c]
	}
	both.Scores = scores
	return both, true
}
