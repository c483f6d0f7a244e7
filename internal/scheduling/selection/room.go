// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"cmp"
	"slices"
)

// makeRoom replaces chosen clusters, the worst first, by others of the ranked
// ones that have more room, until there is room for all replicas. What is chosen
// meets the constraints, and does with each other cluster.
func (s *groupSearch) makeRoom(chosen, ranked []int) ([]int, error) {
	others := withoutPlaces(ranked, chosen, len(s.candidates))
	room := roomOf(s.candidates, chosen)
	if !s.ByRoom || len(others) == 0 || room >= s.Replicas {
		return chosen, nil // who divides finds that all together have no room
	}
	chosen = slices.Clone(chosen)
	slices.SortStableFunc(others, func(i, j int) int { return cmp.Compare(s.candidates[j].Room, s.candidates[i].Room) })
	tally := s.numbers.tallyMembers(chosen)
	for at := len(chosen) - 1; at >= 0 && len(others) > 0; at-- {
		tally.removeMember(chosen[at])
		if n := s.findRoomier(tally, others, s.candidates[chosen[at]].Room); n >= 0 {
			room += s.candidates[others[n]].Room - s.candidates[chosen[at]].Room
			chosen[at] = others[n]
			others = slices.Delete(others, n, n+1)
		}
		tally.addMember(chosen[at])
		if room >= s.Replicas {
			return chosen, nil
		}
	}
	if s.Partial {
		return chosen, nil
	}
	return nil, &NoRoomError{Clusters: len(chosen)}
}

// findRoomier returns the place among others, the roomiest first, of the first that has more than so much
// room and may be chosen beside those that are counted; -1 if there is none.
func (s *groupSearch) findRoomier(tally *groupTally, others []int, room int64) int {
	lacking := s.lackingConstraint(tally)
	for n, other := range others {
		if s.candidates[other].Room <= room || s.looks > s.looksMost {
			return -1
		}
		s.looks++
		if lacking >= 0 && !s.Groups[lacking].includesCount(tally.foundWith(lacking, other)) {
			continue // as most of them, where a group has no other cluster
		}
		if s.mayBeAdded(tally, other) {
			return n
		}
	}
	return -1
}

// lackingConstraint returns the place of a constraint by which more groups are needed than those that are
// counted; -1 if there is none.
func (s *groupSearch) lackingConstraint(tally *groupTally) int {
	for k := range s.Groups {
		if tally.found[k] < s.Groups[k].Min {
			return k
		}
	}
	return -1
}

// mayBeAdded reports whether all constraints are met with one more candidate.
func (s *groupSearch) mayBeAdded(tally *groupTally, place int) bool {
	s.looks += len(s.Groups)
	for k := range s.Groups {
		if !s.Groups[k].includesCount(tally.foundWith(k, place)) {
			return false
		}
	}
	if tally.size < s.Clusters.upperBound() {
		return true
	}
	s.looks += len(s.Groups) * len(s.Groups)
	return !tally.makesSpare(place)
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
