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
	if len(w.Groups) == 0 {
		chosen = ranked[:min(len(ranked), w.Clusters.upperBound())]
		chosen, err = w.makeRoom(candidates, chosen, ranked)
	} else {
		chosen, err = w.byGroups(candidates, ranked)
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

// makeRoom replaces chosen clusters, the worst first, by others of the ranked
// ones that have more room, until there is room for all replicas. It keeps the
// groups that the constraints need.
func (w ClusterWish) makeRoom(candidates []ClusterCandidate, chosen, ranked []int) ([]int, error) {
	others := withoutPlaces(ranked, chosen, len(candidates))
	if !w.ByRoom || len(others) == 0 || roomOf(candidates, chosen) >= w.Replicas {
		return chosen, nil // who divides finds that all together have no room
	}
	chosen = slices.Clone(chosen)
	slices.SortStableFunc(others, func(i, j int) int { return cmp.Compare(candidates[j].Room, candidates[i].Room) })
	for at := len(chosen) - 1; at >= 0 && len(others) > 0; at-- {
		was := chosen[at]
		for n, other := range others {
			if candidates[other].Room <= candidates[was].Room {
				break
			}
			if chosen[at] = other; w.meetsConstraints(candidates, chosen) {
				others = slices.Delete(others, n, n+1)
				break
			}
			chosen[at] = was
		}
		if roomOf(candidates, chosen) >= w.Replicas {
			return chosen, nil
		}
	}
	if w.Partial {
		return chosen, nil
	}
	return nil, &NoRoomError{Clusters: len(chosen)}
}

// withoutPlaces returns the places that are not among others, of so many.
func withoutPlaces(places, others []int, of int) []int {
	among := make([]bool, of)
	for _, i := range others {
		among[i] = true
	}
	var left []int
	for _, i := range places {
		if !among[i] {
			left = append(left, i)
		}
	}
	return left
}

func roomOf(candidates []ClusterCandidate, places []int) int64 {
	var room int64
	for _, i := range places {
		room += candidates[i].Room
	}
	return room
}

// withoutSpare returns chosen without the clusters, the last first, whose groups others of
// them are in. Without groups, that is none of them.
func (w ClusterWish) withoutSpare(candidates []ClusterCandidate, chosen []int) []int {
	type group struct {
		constraint int
		name       string
	}
	members := map[group]int{}
	for _, i := range chosen {
		for k, names := range candidates[i].Groups {
			for _, name := range names {
				members[group{k, name}]++
			}
		}
	}
	needed := make([]int, 0, len(chosen)) // the last first
	for _, place := range slices.Backward(chosen) {
		var in []group
		for k, names := range candidates[place].Groups {
			for _, name := range names {
				in = append(in, group{k, name})
			}
		}
		if slices.ContainsFunc(in, func(g group) bool { return members[g] == 1 }) {
			needed = append(needed, place)
			continue
		}
		for _, g := range in {
			members[g]--
		}
	}
	slices.Reverse(needed)
	return needed
}

// AllowsChosen reports whether clusters that were chosen before are not too many, and in
// not too many groups. They may be too few: who divides replicas leaves out those
// that get none.
func (w ClusterWish) AllowsChosen(chosen []ClusterCandidate) bool {
	places := make([]int, len(chosen))
	for i := range places {
		places[i] = i
	}
	w.Clusters.Min = 0
	w.Groups = slices.Clone(w.Groups)
	for k := range w.Groups {
		w.Groups[k].Min = 0
	}
	return w.meetsConstraints(chosen, places)
}

// meetsConstraints reports whether a choice meets all constraints.
func (w ClusterWish) meetsConstraints(candidates []ClusterCandidate, chosen []int) bool {
	if len(chosen) < w.Clusters.Min {
		return false
	}
	if len(chosen) > w.Clusters.upperBound() && (w.Strict || len(w.withoutSpare(candidates, chosen)) < len(chosen)) {
		return false
	}
	for k, constraint := range w.Groups {
		groups := map[string]bool{}
		for _, i := range chosen {
			for _, group := range candidates[i].Groups[k] {
				groups[group] = true
			}
		}
		if len(groups) < constraint.Min || len(groups) > constraint.upperBound() {
			return false
		}
	}
	return true
}
