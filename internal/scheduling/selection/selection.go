// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selection chooses clusters under constraints on how many of them and
// of their groups there may be: regions, zones, providers or labels.
//
// The package is pure: the same candidates give the same choice, whatever their
// order.
package selection

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ClusterCandidate is a cluster that may be chosen.
type ClusterCandidate struct {
	Name string
	// Tier is 0 for clusters that are chosen before those of a higher tier.
	Tier int
	// Score says how good it is. It is not negative.
	Score int64
	// Room is how many replicas it has room for, with those that it has.
	Room int64
	// Groups are those that it is in, for each constraint of Wish.Groups.
	Groups [][]string
}

// Bounds are how many of something are chosen, at least and at most. A Max of 0
// is no limit.
type Bounds struct{ Min, Max int }

func (b Bounds) upperBound() int {
	if b.Max == 0 {
		return math.MaxInt
	}
	return b.Max
}

func (b Bounds) includesCount(n int) bool { return n >= b.Min && n <= b.upperBound() }

// GroupConstraint is how many groups of a topology are chosen.
type GroupConstraint struct {
	Bounds
	// Topology is its name for errors, such as "region".
	Topology string
}

// ClusterWish is how many clusters and groups are to be chosen.
type ClusterWish struct {
	// Clusters.Max limits what is chosen beside one cluster of each group: if the groups
	// need more clusters, all of these are chosen.
	Clusters Bounds
	// Strict keeps to Clusters.Max whatever the groups need.
	Strict bool
	Groups []GroupConstraint
	// Replicas are those that the chosen clusters need room for together, if
	// ByRoom is set. Otherwise room does not matter.
	Replicas int64
	ByRoom   bool
	// Partial chooses clusters that have less room, if there is no other choice.
	Partial bool
	// Tries is how many such wishes may be tried for one object, each after the one before
	// was in vain. They share the search for a choice. 0 is one.
	Tries int
}

func (w ClusterWish) wishTries() int { return max(1, w.Tries) }

// TooFewError says that there are not enough clusters or groups.
type TooFewError struct {
	// Topology is what there are too few of.
	Topology string
	Found    int
	Min      int
}

// Error is part of error.
func (e *TooFewError) Error() string {
	return fmt.Sprintf("spreadConstraints want at least %d by %s, and the clusters that may be chosen are %d; lower minGroups or add clusters",
		e.Min, e.Topology, e.Found)
}

// NoCombinationError says that there are enough clusters and enough groups, but
// no choice that meets all constraints at once.
type NoCombinationError struct{ Topologies []string }

// Error is part of error.
func (e *NoCombinationError) Error() string {
	return fmt.Sprintf("no choice of clusters meets the spreadConstraints by %s at once; raise maxGroups or lower minGroups of one of them",
		strings.Join(e.Topologies, ", "))
}

// NoRoomError says that no choice of as many clusters as may be chosen has room
// for the replicas.
type NoRoomError struct{ Clusters int }

// Error is part of error. Clients match the text.
func (e *NoRoomError) Error() string {
	return fmt.Sprintf("no enough resource when selecting %d clusters", e.Clusters)
}

// topologyCluster is what constraints on clusters are called.
const topologyCluster = "cluster"

// SelectClusters returns the places of the chosen candidates, in their order. The error
// is a *TooFewError, a *NoCombinationError or a *NoRoomError.
func (w ClusterWish) SelectClusters(candidates []ClusterCandidate) ([]int, error) {
	ranked := rankCandidates(candidates)
	if len(ranked) < w.Clusters.Min {
		return nil, &TooFewError{Topology: topologyCluster, Found: len(ranked), Min: w.Clusters.Min}
	}
	var chosen []int
	var err error
	s := newGroupSearch(w, candidates)
	if len(w.Groups) == 0 {
		chosen, err = s.makeRoom(ranked[:min(len(ranked), w.Clusters.upperBound())], ranked)
	} else {
		chosen, err = s.byGroups(ranked)
	}
	if err != nil {
		return nil, err
	}
	return slices.Sorted(slices.Values(chosen)), nil
}

// rankCandidates returns the places of the candidates, the best first.
func rankCandidates(candidates []ClusterCandidate) []int {
	ranked := make([]int, len(candidates))
	for i := range ranked {
		ranked[i] = i
	}
	slices.SortFunc(ranked, func(i, j int) int {
		a := &candidates[i]
		b := &candidates[j]
		return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(b.Score, a.Score), cmp.Compare(b.Room, a.Room), strings.Compare(a.Name, b.Name))
	})
	return ranked
}

// AllowsChosen reports whether clusters that were chosen before are not too many, and in
// not too many groups. They may be too few: who divides replicas leaves out those
// that get none.
func (w ClusterWish) AllowsChosen(chosen []ClusterCandidate) bool {
	w.Clusters.Min = 0
	w.Groups = slices.Clone(w.Groups)
	for k := range w.Groups {
		w.Groups[k].Min = 0
	}
	return w.meetsConstraints(numberGroups(chosen, len(w.Groups)).tallyAll())
}
