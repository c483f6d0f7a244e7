// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"cmp"
	"slices"
	"strings"
)

const (
	// weightUnit is what a cluster, or a replica, counts in the weight of a group
	// beside scores, which are up to 100.
	weightUnit = 1000
	// stepsMax and choicesMax bound the search for one object, which ends much earlier
	// unless the constraints can hardly be met.
	stepsMax, choicesMax = 100_000, 200
	// looksMax bounds, for each candidate, how often the choices look whether it covers groups, or
	// has room and may be chosen instead of another.
	looksMax = 10_000
)

// candidateGroup is the candidates in a region, or in a group of another topology.
type candidateGroup struct {
	number int
	// places of the candidates, the best first.
	places []int
	// alone says that one of them is in no other group of the topology.
	alone bool
	// weight says how good the group is.
	weight int64
}

// groupSearch looks for the fewest groups of each topology, and the best of those,
// that have enough clusters.
type groupSearch struct {
	ClusterWish

	candidates     []ClusterCandidate
	numbers        *groupNumbers
	steps, choices int
	// looks are those of makeRoom and coverGroups, each at one group or more. After looksMost no more
	// room is made, and no further groups are taken.
	looks, looksMost int
	// roomless is the first choice that has no room for the replicas.
	roomless []int
}

func newGroupSearch(w ClusterWish, candidates []ClusterCandidate) *groupSearch {
	return &groupSearch{
		ClusterWish: w, candidates: candidates, numbers: numberGroups(candidates, len(w.Groups)),
		looksMost: looksMax * len(candidates) / w.wishTries(),
	}
}

// byGroups chooses groups, the best cluster of each, and then the best clusters
// that are left in these groups, up to Clusters.Max. If no choice has room for all
// replicas, it returns the best one that has not. If the groups need more clusters
// than Clusters.Max, it chooses those and no others.
func (s *groupSearch) byGroups(ranked []int) ([]int, error) {
	ranked = slices.DeleteFunc(ranked, func(i int) bool { return s.inTooManyGroups(s.candidates[i]) })
	topologies := make([]string, 0, len(s.Groups)+1)
	for k, constraint := range s.Groups {
		if found := len(s.groupsOf(k, ranked)); found < constraint.Min {
			return nil, &TooFewError{Topology: constraint.Topology, Found: found, Min: constraint.Min}
		}
		topologies = append(topologies, constraint.Topology)
	}
	strict := s.Strict
	s.Strict = true // a choice within the limit comes first
	chosen := s.searchGroups(ranked)
	if chosen == nil && s.Clusters.Max > 0 && !strict {
		s.steps = 0
		s.choices = 0
		s.looks = 0
		s.Strict = false
		chosen = s.searchGroups(ranked)
	}
	if chosen == nil {
		return nil, &NoCombinationError{Topologies: append(topologies, topologyCluster)}
	}
	return chosen, nil
}

// searchGroups returns the best choice with room for all replicas, or else one without; nil
// if there is none.
func (s *groupSearch) searchGroups(ranked []int) []int {
	if chosen := s.narrowByGroups(0, ranked, nil); chosen != nil {
		return chosen
	}
	return s.roomless
}

// inTooManyGroups reports whether a candidate is in more groups of a topology than may be chosen. Groups
// that only it is in would be tried for nothing, until the search is at its end.
func (w ClusterWish) inTooManyGroups(c ClusterCandidate) bool {
	for k, constraint := range w.Groups {
		if len(c.Groups[k]) > constraint.upperBound() {
			return true
		}
	}
	return false
}

// narrowByGroups chooses groups by the constraints from the k-th on, of the candidates
// that are left of the constraints before; wanted are the numbers of the groups chosen by these.
// It returns the chosen candidates, nil if there is no choice.
func (s *groupSearch) narrowByGroups(k int, ranked, wanted []int) []int {
	if k == len(s.Groups) {
		return s.pickCandidates(ranked, wanted)
	}
	groups := s.groupsOf(k, ranked)
	constraint := s.Groups[k]
	at := make(map[int]int, len(groups))
	for n := range groups {
		at[groups[n].number] = n
	}
	for size := max(1, constraint.Min); size <= min(len(groups), constraint.upperBound()); size++ {
		c := combination{groupSearch: s, k: k, groups: groups, at: at, size: size, ranked: ranked, wanted: wanted}
		c.extendTaken(0, 0, 0)
		if c.best != nil {
			return c.best
		}
	}
	return nil
}

// groupsOf returns the groups of a topology, the best first.
func (s *groupSearch) groupsOf(k int, ranked []int) []candidateGroup {
	at := map[int]int{}
	var groups []candidateGroup
	for _, i := range ranked {
		in := s.numbers.of[i][k]
		for _, number := range in {
			n, known := at[number]
			if !known {
				n = len(groups)
				at[number] = n
				groups = append(groups, candidateGroup{number: number})
			}
			groups[n].places = append(groups[n].places, i)
			groups[n].alone = groups[n].alone || len(in) == 1
		}
	}
	for n := range groups {
		groups[n].weight = s.weighGroup(groups[n].places, s.Groups[k].Min)
	}
	slices.SortFunc(groups, func(a, b candidateGroup) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(len(b.places), len(a.places)), strings.Compare(s.numbers.names[a.number], s.numbers.names[b.number]))
	})
	return groups
}

// weighGroup returns the weight of a group: by its clusters or, if room matters, by
// how many replicas of its share it has room for, and then by the scores.
func (s *groupSearch) weighGroup(places []int, groups int) int64 {
	if !s.ByRoom {
		return int64(len(places))*weightUnit + s.averageScore(places)
	}
	wanted := max(1, int64(groups))
	share := (s.Replicas + wanted - 1) / wanted
	var room int64
	used := 0
	for used < len(places) && (used == 0 || room < share) {
		room += s.candidates[places[used]].Room
		used++
	}
	return min(room, share)*weightUnit + s.averageScore(places[:used])
}

// averageScore returns the average score of candidates, of which there is one.
func (s *groupSearch) averageScore(places []int) int64 {
	var sum int64
	for _, i := range places {
		sum += s.candidates[i].Score
	}
	return sum / int64(len(places))
}

// combination looks for the best groups of a topology, so many of them.
type combination struct {
	*groupSearch

	k      int
	groups []candidateGroup // the best first
	at     map[int]int      // places in groups, by number
	size   int
	ranked []int
	wanted []int // numbers of groups

	taken  []int // places in groups
	best   []int // the chosen candidates
	weight int64 // of the best
	count  int   // of the clusters in the best
}

// extendTaken adds groups from the n-th on to those that are taken, which have this
// weight and so many clusters.
func (c *combination) extendTaken(n int, weight int64, clusters int) {
	if c.steps++; c.steps > stepsMax/c.wishTries() || c.choices > choicesMax/c.wishTries() || c.looks > c.looksMost {
		return
	}
	if !c.promising(n) {
		return
	}
	if len(c.taken) == c.size {
		c.tryTakenGroups(weight, clusters)
		return
	}
	for ; n+c.size-len(c.taken) <= len(c.groups); n++ {
		if c.best != nil && c.reachableWeight(n, weight) < c.weight {
			return
		}
		c.taken = append(c.taken, n)
		c.extendTaken(n+1, weight+c.groups[n].weight, clusters+len(c.groups[n].places))
		c.taken = c.taken[:len(c.taken)-1]
	}
}

// promising reports whether each of the taken groups may have a cluster in the end, with
// others from the n-th on. A cluster that is in several groups needs all of them if so many
// may be chosen and no more. Without that, the search would come to its end among the
// groups of a cluster that says it is in many.
func (c *combination) promising(n int) bool {
	if c.Groups[c.k].Max == 0 {
		return true
	}
	for _, taken := range c.taken {
		if !c.groups[taken].alone && !slices.ContainsFunc(c.groups[taken].places, func(i int) bool { return c.candidateFits(i, n) }) {
			return false
		}
	}
	return true
}

// candidateFits reports whether all groups of a candidate are taken, or can be from the n-th on.
func (c *combination) candidateFits(i, n int) bool {
	missing := 0
	for _, number := range c.numbers.of[i][c.k] {
		at := c.at[number]
		switch {
		case slices.Contains(c.taken, at):
		case at < n:
			return false
		default:
			missing++
		}
	}
	return missing <= c.size-len(c.taken)
}

// reachableWeight returns the weight that can be reached with groups from the n-th on.
func (c *combination) reachableWeight(n int, weight int64) int64 {
	for _, g := range c.groups[n : n+c.size-len(c.taken)] {
		weight += g.weight
	}
	return weight
}

// tryTakenGroups looks whether the taken groups are better than the best so far, and
// whether the other constraints can be met with them.
func (c *combination) tryTakenGroups(weight int64, clusters int) {
	better := c.best == nil || cmp.Or(cmp.Compare(weight, c.weight), cmp.Compare(clusters, c.count)) > 0
	if !better || clusters < c.Clusters.Min {
		return
	}
	c.choices++
	taken := make([]bool, len(c.numbers.names))
	wanted := slices.Clone(c.wanted)
	for _, n := range c.taken {
		taken[c.groups[n].number] = true
		wanted = append(wanted, c.groups[n].number)
	}
	strict := c.Groups[c.k].Max > 0
	var left []int
	for _, i := range c.ranked {
		// A cluster in several groups must not bring in one too many.
		in := func(number int) bool { return taken[number] }
		out := func(number int) bool { return !taken[number] }
		groups := c.numbers.of[i][c.k]
		if slices.ContainsFunc(groups, in) && (!strict || !slices.ContainsFunc(groups, out)) {
			left = append(left, i)
		}
	}
	if chosen := c.narrowByGroups(c.k+1, left, wanted); chosen != nil {
		c.best = chosen
		c.weight = weight
		c.count = clusters
	}
}

// pickCandidates chooses clusters that are in all wanted groups together, and then the
// best of those that are left.
func (s *groupSearch) pickCandidates(ranked, wanted []int) []int {
	chosen, left := s.coverGroups(ranked, wanted)
	if chosen == nil {
		return nil
	}
	if len(chosen) > s.Clusters.upperBound() {
		chosen = s.numbers.tallyMembers(chosen).withoutSpare()
	}
	chosen = append(chosen, left[:min(len(left), max(0, s.Clusters.upperBound()-len(chosen)))]...)
	if !s.meetsConstraints(s.numbers.tallyMembers(chosen)) {
		return nil
	}
	roomy, err := s.makeRoom(chosen, ranked)
	if err == nil && (!s.ByRoom || roomOf(s.candidates, roomy) >= s.Replicas) {
		return roomy
	}
	switch {
	case s.Partial && (s.roomless == nil || roomOf(s.candidates, roomy) > roomOf(s.candidates, s.roomless)):
		s.roomless = roomy
	case s.roomless == nil:
		s.roomless = chosen
	}
	return nil
}

// coverGroups chooses as few clusters as it finds that are in all wanted groups together,
// and returns those that are left, too; nil if there are none. Each is in as many of the missing groups
// as any that is left, and who is in fewer once is in no more later.
func (s *groupSearch) coverGroups(ranked, wanted []int) (chosen, left []int) {
	missing := make([]bool, len(s.numbers.names))
	for _, number := range wanted {
		missing[number] = true
	}
	chosen = []int{}
	left = ranked
	open := len(wanted)
	for most := s.numbers.widest; open > 0; {
		s.looks += len(left) * len(s.Groups)
		var rest []int
		next := 0
		for _, i := range left {
			covers := s.countCovered(i, missing)
			if covers < most || open == 0 {
				next = max(next, covers)
				rest = append(rest, i)
				continue
			}
			s.markCovered(i, missing)
			open -= covers
			chosen = append(chosen, i)
		}
		left = rest
		if most = next; most == 0 && open > 0 {
			return nil, nil
		}
	}
	return chosen, left
}

// countCovered returns how many of the missing groups a candidate is in.
func (s *groupSearch) countCovered(i int, missing []bool) int {
	covers := 0
	for _, groups := range s.numbers.of[i] {
		for _, number := range groups {
			if missing[number] {
				covers++
			}
		}
	}
	return covers
}

// markCovered notes that the groups of a candidate are missing no longer.
func (s *groupSearch) markCovered(i int, missing []bool) {
	for _, groups := range s.numbers.of[i] {
		for _, number := range groups {
			missing[number] = false
		}
	}
}
