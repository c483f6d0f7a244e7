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

// decisionSlice is a PlacementDecision: some clusters of a group.
type decisionSlice struct {
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

// sameContent reports whether two slices list the same.
func (s decisionSlice) sameContent(other decisionSlice) bool {
	return slices.Equal(s.Clusters, other.Clusters) && maps.Equal(s.Scores, other.Scores)
}

// numbers gives slices the numbers that are free.
type numbers struct {
	taken map[int]bool
	last  int
}

// freeNumbers returns the numbers that neither the slices before nor others have.
func freeNumbers(before []decisionSlice, others []int) *numbers {
	n := &numbers{taken: map[int]bool{}}
	for _, old := range before {
		n.taken[old.Number] = true
	}
	for _, number := range others {
		n.taken[number] = true
	}
	return n
}

func (n *numbers) nextNumber() int {
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
func divide(groups []scheduler.DecisionGroup, before []decisionSlice, numbers *numbers) []decisionSlice {
	var all []decisionSlice
	for index, group := range groups {
		kept, homeless := retainSlices(index, group, before)
		for n := range kept {
			homeless = kept[n].takeClusters(homeless)
		}
		for len(homeless) > 0 || len(kept) == 0 {
			more := decisionSlice{Number: numbers.nextNumber(), Group: index, Name: group.Name}
			homeless = more.takeClusters(homeless)
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

// rankByScore divides the groups into slices as divide does, but in the order of scores,
// the highest first, and then of names: all slices of a group, in the order of
// their numbers, are one list. So a change of scores can change several slices.
func rankByScore(groups []scheduler.DecisionGroup, scores map[string]int64, before []decisionSlice, numbers *numbers) []decisionSlice {
	var all []decisionSlice
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
			if old.isOfGroup(index, group) && len(own) < len(chunks) {
				own = append(own, old.Number)
			}
		}
		for len(own) < len(chunks) {
			own = append(own, numbers.nextNumber())
		}
		slices.Sort(own)
		for n, clusters := range chunks {
			all = append(all, decisionSlice{Number: own[n], Group: index, Name: group.Name, Clusters: clusters, Scores: scoresOfClusters(clusters, scores)})
		}
	}
	slices.SortFunc(all, byNumber)
	return all
}

// scoresOfClusters returns the scores of the clusters, nil for none.
func scoresOfClusters(clusters []string, scores map[string]int64) map[string]int64 {
	if scores == nil || len(clusters) == 0 {
		return nil
	}
	of := make(map[string]int64, len(clusters))
	for _, c := range clusters {
		of[c] = scores[c]
	}
	return of
}

func byNumber(a, b decisionSlice) int { return a.Number - b.Number }

// isOfGroup reports whether the slice is of a group.
func (s decisionSlice) isOfGroup(index int, group scheduler.DecisionGroup) bool {
	return s.Group == index && s.Name == group.Name
}

// retainSlices returns the slices of the group with the clusters of it that they have,
// those with none last, and the clusters that are in none.
func retainSlices(index int, group scheduler.DecisionGroup, before []decisionSlice) (kept []decisionSlice, homeless []string) {
	wanted := make(map[string]bool, len(group.Clusters))
	for _, c := range group.Clusters {
		wanted[c] = true
	}
	var empty []decisionSlice
	for _, old := range before {
		if !old.isOfGroup(index, group) {
			continue
		}
		still := decisionSlice{Number: old.Number, Group: index, Name: group.Name}
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

// takeClusters takes as many clusters as there is room for, and returns the others.
func (s *decisionSlice) takeClusters(clusters []string) []string {
	n := min(len(clusters), clusterv1beta1.DecisionsMax-len(s.Clusters))
	s.Clusters = append(s.Clusters, clusters[:n]...)
	slices.Sort(s.Clusters)
	return clusters[n:]
}
