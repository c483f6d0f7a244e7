// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"cmp"
	"maps"
	"slices"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// slice is a PlacementDecision: some clusters of a group.
type slice struct {
	// Number is from 1, and is in the name.
	Number int
	Group  int
	Name   string // of the group
	// Clusters are in the order in which they are listed.
	Clusters []string
	// Scores are those of the clusters, nil if they are not listed.
	Scores map[string]int64
	// Edited says that somebody else has changed the PlacementDecision.
	Edited bool
}

// same tells whether two slices list the same.
func (s slice) same(other slice) bool {
	return slices.Equal(s.Clusters, other.Clusters) && maps.Equal(s.Scores, other.Scores)
}

// numbers gives slices the numbers that are free.
type numbers struct {
	taken map[int]bool
	last  int
}

// free returns the numbers that neither the slices before nor others have.
func free(before []slice, others []int) *numbers {
	n := &numbers{taken: map[int]bool{}}
	for _, old := range before {
		n.taken[old.Number] = true
	}
	for _, number := range others {
		n.taken[number] = true
	}
	return n
}

func (n *numbers) next() int {
	n.last++
	for n.taken[n.last] {
		n.last++
	}
	return n.last
}

// divide divides the groups into slices of at most clusterv1beta1.DecisionsMax
// clusters, in the order of names. There is always one slice, which may be empty.
// A cluster that stays in its group stays in its slice, so that one cluster more
// changes one slice; and no slice goes from one group to another.
func divide(groups []scheduler.Group, before []slice, numbers *numbers) []slice {
	var all []slice
	for index, group := range groups {
		kept, homeless := keep(index, group, before)
		for n := range kept {
			homeless = kept[n].fill(homeless)
		}
		for len(homeless) > 0 || len(kept) == 0 {
			more := slice{Number: numbers.next(), Group: index, Name: group.Name}
			homeless = more.fill(homeless)
			kept = append(kept, more)
		}
		for n, s := range kept { // those that are empty are the last
			if n == 0 || len(s.Clusters) > 0 {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, byNumber)
	return all
}

// rank divides the groups into slices as divide does, but in the order of scores,
// the highest first, and then of names: all slices of a group, in the order of
// their numbers, are one list. So a change of scores can change several slices.
func rank(groups []scheduler.Group, scores map[string]int64, before []slice, numbers *numbers) []slice {
	var all []slice
	for index, group := range groups {
		ranked := slices.Clone(group.Clusters)
		slices.SortFunc(ranked, func(a, b string) int {
			return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
		})
		chunks := slices.Collect(slices.Chunk(ranked, clusterv1beta1.DecisionsMax))
		if len(chunks) == 0 {
			chunks = [][]string{nil}
		}
		var own []int
		for _, old := range before {
			if old.of(index, group) && len(own) < len(chunks) {
				own = append(own, old.Number)
			}
		}
		for len(own) < len(chunks) {
			own = append(own, numbers.next())
		}
		slices.Sort(own)
		for n, clusters := range chunks {
			all = append(all, slice{Number: own[n], Group: index, Name: group.Name, Clusters: clusters, Scores: only(clusters, scores)})
		}
	}
	slices.SortFunc(all, byNumber)
	return all
}

// only returns the scores of the clusters, nil for none.
func only(clusters []string, scores map[string]int64) map[string]int64 {
	if scores == nil || len(clusters) == 0 {
		return nil
	}
	of := make(map[string]int64, len(clusters))
	for _, c := range clusters {
		of[c] = scores[c]
	}
	return of
}

func byNumber(a, b slice) int { return a.Number - b.Number }

// of tells whether the slice is of a group.
func (s slice) of(index int, group scheduler.Group) bool {
	return s.Group == index && s.Name == group.Name
}

// keep returns the slices of the group with the clusters of it that they have,
// those with none last, and the clusters that are in none.
func keep(index int, group scheduler.Group, before []slice) (kept []slice, homeless []string) {
	wanted := make(map[string]bool, len(group.Clusters))
	for _, c := range group.Clusters {
		wanted[c] = true
	}
	var empty []slice
	for _, old := range before {
		if !old.of(index, group) {
			continue
		}
		still := slice{Number: old.Number, Group: index, Name: group.Name}
		for _, c := range old.Clusters {
			if wanted[c] && len(still.Clusters) < clusterv1beta1.DecisionsMax {
				still.Clusters = append(still.Clusters, c)
				delete(wanted, c)
			}
		}
		slices.Sort(still.Clusters)
		if len(still.Clusters) > 0 {
			kept = append(kept, still)
		} else {
			empty = append(empty, still)
		}
	}
	for _, c := range group.Clusters {
		if wanted[c] {
			homeless = append(homeless, c)
		}
	}
	return append(kept, empty...), homeless
}

// fill takes as many clusters as there is room for, and returns the others.
func (s *slice) fill(clusters []string) []string {
	n := min(len(clusters), clusterv1beta1.DecisionsMax-len(s.Clusters))
	s.Clusters = append(s.Clusters, clusters[:n]...)
	slices.Sort(s.Clusters)
	return clusters[n:]
}
