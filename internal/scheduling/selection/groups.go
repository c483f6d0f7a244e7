// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"cmp"
	"maps"
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
)

// group is the candidates in a region, or in a group of another topology.
type group struct {
	name string
	// places of the candidates, the best first.
	places []int
	// weight says how good the group is.
	weight int64
}

// search looks for the fewest groups of each topology, and the best of those,
// that have enough clusters.
type search struct {
	Wish

	candidates     []Candidate
	steps, choices int
	// widest is how many groups a candidate is in at most.
	widest int
	// roomless is the first choice that has no room for the replicas.
	roomless []int
}

// byGroups chooses groups, the best cluster of each, and then the best clusters
// that are left in these groups, up to Clusters.Max. If no choice has room for all
// replicas, it returns the best one that has not. If the groups need more clusters
// than Clusters.Max, it chooses those and no others.
func (w Wish) byGroups(candidates []Candidate, ranked []int) ([]int, error) {
	s := &search{Wish: w, candidates: candidates}
	ranked = slices.DeleteFunc(ranked, func(i int) bool { return w.wide(candidates[i]) })
	for _, c := range candidates {
		in := 0
		for _, names := range c.Groups {
			in += len(names)
		}
		s.widest = max(s.widest, in)
	}
	topologies := make([]string, 0, len(w.Groups)+1)
	for k, constraint := range w.Groups {
		if found := len(s.groupsOf(k, ranked)); found < constraint.Min {
			return nil, &TooFewError{Topology: constraint.Topology, Found: found, Min: constraint.Min}
		}
		topologies = append(topologies, constraint.Topology)
	}
	s.Strict = true // a choice within the limit comes first
	chosen := s.run(ranked)
	if chosen == nil && w.Clusters.Max > 0 && !w.Strict {
		s.steps = 0
		s.choices = 0
		s.Strict = false
		chosen = s.run(ranked)
	}
	if chosen == nil {
		return nil, &NoCombinationError{Topologies: append(topologies, topologyCluster)}
	}
	return chosen, nil
}

// run returns the best choice with room for all replicas, or else one without; nil
// if there is none.
func (s *search) run(ranked []int) []int {
	if chosen := s.narrow(0, ranked, make([]map[string]bool, len(s.Groups))); chosen != nil {
		return chosen
	}
	return s.roomless
}

// wide tells whether a candidate is in more groups of a topology than may be chosen. Groups
// that only it is in would be tried for nothing, until the search is at its end.
func (w Wish) wide(c Candidate) bool {
	for k, constraint := range w.Groups {
		if len(c.Groups[k]) > constraint.most() {
			return true
		}
	}
	return false
}

// narrow chooses groups by the constraints from the k-th on, of the candidates
// that are left of the constraints before; wanted are the groups chosen by these.
// It returns the chosen candidates, nil if there is no choice.
func (s *search) narrow(k int, ranked []int, wanted []map[string]bool) []int {
	if k == len(s.Groups) {
		return s.pick(ranked, wanted)
	}
	groups := s.groupsOf(k, ranked)
	constraint := s.Groups[k]
	at := make(map[string]int, len(groups))
	for n := range groups {
		at[groups[n].name] = n
	}
	for size := max(1, constraint.Min); size <= min(len(groups), constraint.most()); size++ {
		c := combination{search: s, k: k, groups: groups, at: at, size: size, ranked: ranked, wanted: wanted}
		c.extend(0, 0, 0)
		if c.best != nil {
			return c.best
		}
	}
	return nil
}

// groupsOf returns the groups of a topology, the best first.
func (s *search) groupsOf(k int, ranked []int) []group {
	at := map[string]int{}
	var groups []group
	for _, i := range ranked {
		for _, name := range s.candidates[i].Groups[k] {
			n, known := at[name]
			if !known {
				n = len(groups)
				at[name] = n
				groups = append(groups, group{name: name})
			}
			groups[n].places = append(groups[n].places, i)
		}
	}
	for n := range groups {
		groups[n].weight = s.weigh(groups[n].places, s.Groups[k].Min)
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(len(b.places), len(a.places)), strings.Compare(a.name, b.name))
	})
	return groups
}

// weigh returns the weight of a group: by its clusters or, if room matters, by
// how many replicas of its share it has room for, and then by the scores.
func (s *search) weigh(places []int, groups int) int64 {
	if !s.ByRoom {
		return int64(len(places))*weightUnit + s.score(places)
	}
	wanted := max(1, int64(groups))
	share := (s.Replicas + wanted - 1) / wanted
	var room int64
	used := 0
	for used < len(places) && (used == 0 || room < share) {
		room += s.candidates[places[used]].Room
		used++
	}
	return min(room, share)*weightUnit + s.score(places[:used])
}

// score returns the average score of candidates, of which there is one.
func (s *search) score(places []int) int64 {
	var sum int64
	for _, i := range places {
		sum += s.candidates[i].Score
	}
	return sum / int64(len(places))
}

// combination looks for the best groups of a topology, so many of them.
type combination struct {
	*search

	k      int
	groups []group        // the best first
	at     map[string]int // places in groups, by name
	size   int
	ranked []int
	wanted []map[string]bool

	taken  []int // places in groups
	best   []int // the chosen candidates
	weight int64 // of the best
	count  int   // of the clusters in the best
}

// extend adds groups from the n-th on to those that are taken, which have this
// weight and so many clusters.
func (c *combination) extend(n int, weight int64, clusters int) {
	if c.steps++; c.steps > stepsMax/c.tries() || c.choices > choicesMax/c.tries() {
		return
	}
	if !c.promising(n) {
		return
	}
	if len(c.taken) == c.size {
		c.choose(weight, clusters)
		return
	}
	for ; n+c.size-len(c.taken) <= len(c.groups); n++ {
		if c.best != nil && c.bound(n, weight) < c.weight {
			return
		}
		c.taken = append(c.taken, n)
		c.extend(n+1, weight+c.groups[n].weight, clusters+len(c.groups[n].places))
		c.taken = c.taken[:len(c.taken)-1]
	}
}

// promising tells whether each of the taken groups may have a cluster in the end, with
// others from the n-th on. A cluster that is in several groups needs all of them if so many
// may be chosen and no more. Without that, the search would come to its end among the
// groups of a cluster that says it is in many.
func (c *combination) promising(n int) bool {
	if c.Groups[c.k].Max == 0 {
		return true
	}
	for _, taken := range c.taken {
		if !slices.ContainsFunc(c.groups[taken].places, func(i int) bool { return c.fits(i, n) }) {
			return false
		}
	}
	return true
}

// fits tells whether all groups of a candidate are taken, or can be from the n-th on.
func (c *combination) fits(i, n int) bool {
	missing := 0
	for _, name := range c.candidates[i].Groups[c.k] {
		at := c.at[name]
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

// bound returns the weight that can be reached with groups from the n-th on.
func (c *combination) bound(n int, weight int64) int64 {
	for _, g := range c.groups[n : n+c.size-len(c.taken)] {
		weight += g.weight
	}
	return weight
}

// choose looks whether the taken groups are better than the best so far, and
// whether the other constraints can be met with them.
func (c *combination) choose(weight int64, clusters int) {
	better := c.best == nil || cmp.Or(cmp.Compare(weight, c.weight), cmp.Compare(clusters, c.count)) > 0
	if !better || clusters < c.Clusters.Min {
		return
	}
	c.choices++
	names := map[string]bool{}
	for _, n := range c.taken {
		names[c.groups[n].name] = true
	}
	strict := c.Groups[c.k].Max > 0
	var left []int
	for _, i := range c.ranked {
		// A cluster in several groups must not bring in one too many.
		in := func(name string) bool { return names[name] }
		out := func(name string) bool { return !names[name] }
		groups := c.candidates[i].Groups[c.k]
		if slices.ContainsFunc(groups, in) && (!strict || !slices.ContainsFunc(groups, out)) {
			left = append(left, i)
		}
	}
	wanted := slices.Clone(c.wanted)
	wanted[c.k] = names
	if chosen := c.narrow(c.k+1, left, wanted); chosen != nil {
		c.best = chosen
		c.weight = weight
		c.count = clusters
	}
}

// pick chooses clusters that are in all wanted groups together, and then the
// best of those that are left.
func (s *search) pick(ranked []int, wanted []map[string]bool) []int {
	chosen, left := s.cover(ranked, wanted)
	if chosen == nil {
		return nil
	}
	if len(chosen) > s.Clusters.most() {
		chosen = s.withoutSpare(s.candidates, chosen)
	}
	chosen = append(chosen, left[:min(len(left), max(0, s.Clusters.most()-len(chosen)))]...)
	if !s.meets(s.candidates, chosen) {
		return nil
	}
	roomy, err := s.makeRoom(s.candidates, chosen, ranked)
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

// cover chooses as few clusters as it finds that are in all wanted groups together,
// and returns those that are left, too; nil if there are none.
func (s *search) cover(ranked []int, wanted []map[string]bool) (chosen, left []int) {
	missing := make([]map[string]bool, len(wanted))
	open := 0
	for k := range wanted {
		missing[k] = maps.Clone(wanted[k])
		open += len(wanted[k])
	}
	chosen = []int{}
	left = ranked
	for open > 0 {
		best := -1
		most := 0
		for n, i := range left {
			if covers := s.covers(i, missing); covers > most {
				best = n
				most = covers
			}
			if most == s.widest {
				break
			}
		}
		if best < 0 {
			return nil, nil
		}
		for k, names := range s.candidates[left[best]].Groups {
			for _, name := range names {
				delete(missing[k], name)
			}
		}
		open -= most
		chosen = append(chosen, left[best])
		left = slices.Delete(slices.Clone(left), best, best+1)
	}
	return chosen, left
}

// covers returns how many of the missing groups a candidate is in.
func (s *search) covers(i int, missing []map[string]bool) int {
	covers := 0
	for k, names := range s.candidates[i].Groups {
		for _, name := range names {
			if missing[k][name] {
				covers++
			}
		}
	}
	return covers
}
