// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import "slices"

// groupNumbers has a number for each group of the candidates, so that what is found out about
// many candidates is counted by numbers.
type groupNumbers struct {
	// of are the groups of each candidate, for each constraint. Each is there once.
	of [][][]int
	// names are those of the groups.
	names []string
	// constraints is how many there are.
	constraints int
	// widest is how many groups a candidate is in at most.
	widest int
}

// numberGroups returns the numbers of the groups that candidates are in, for so many constraints.
func numberGroups(candidates []ClusterCandidate, constraints int) *groupNumbers {
	type group struct {
		constraint int
		name       string
	}
	numbers := map[group]int{}
	all := &groupNumbers{of: make([][][]int, len(candidates)), constraints: constraints}
	for i, c := range candidates {
		all.of[i] = make([][]int, constraints)
		in := 0
		for k := range constraints {
			for _, name := range c.Groups[k] {
				number, known := numbers[group{k, name}]
				if !known {
					number = len(all.names)
					numbers[group{k, name}] = number
					all.names = append(all.names, name)
				}
				if !slices.Contains(all.of[i][k], number) {
					all.of[i][k] = append(all.of[i][k], number)
				}
			}
			in += len(all.of[i][k])
		}
		all.widest = max(all.widest, in)
	}
	return all
}

// groupTally counts the members of groups among chosen candidates. Who joins or leaves costs
// its own groups, and not those of all that are chosen.
type groupTally struct {
	*groupNumbers

	// chosen are the places of the candidates that were counted first, and size is how many
	// there are now.
	chosen []int
	size   int
	// members are those of each group, and sums those of the places of its members: the place
	// of the member if it is the only one.
	members, sums []int
	// found are how many groups have members, for each constraint.
	found []int
}

// tallyMembers counts the groups of chosen candidates.
func (n *groupNumbers) tallyMembers(chosen []int) *groupTally {
	t := &groupTally{
		groupNumbers: n, chosen: chosen, members: make([]int, len(n.names)), sums: make([]int, len(n.names)), found: make([]int, n.constraints),
	}
	for _, place := range chosen {
		t.addMember(place)
	}
	return t
}

// tallyAll counts the groups of all candidates.
func (n *groupNumbers) tallyAll() *groupTally {
	all := make([]int, len(n.of))
	for place := range all {
		all[place] = place
	}
	return n.tallyMembers(all)
}

// addMember counts one more candidate.
func (t *groupTally) addMember(place int) {
	t.size++
	for k, groups := range t.of[place] {
		for _, g := range groups {
			if t.members[g]++; t.members[g] == 1 {
				t.found[k]++
			}
			t.sums[g] += place
		}
	}
}

// removeMember counts a candidate no longer.
func (t *groupTally) removeMember(place int) {
	t.size--
	for k, groups := range t.of[place] {
		for _, g := range groups {
			if t.members[g]--; t.members[g] == 0 {
				t.found[k]--
			}
			t.sums[g] -= place
		}
	}
}

// isSpare reports whether others are in all groups that a member is in. Without groups, each
// member is spare.
func (t *groupTally) isSpare(place int) bool {
	for _, groups := range t.of[place] {
		if slices.ContainsFunc(groups, func(g int) bool { return t.members[g] == 1 }) {
			return false
		}
	}
	return true
}

// makesSpare reports whether a further candidate would be spare, or make a member so, where none is.
func (t *groupTally) makesSpare(place int) bool {
	t.addMember(place)
	defer t.removeMember(place)
	if t.isSpare(place) {
		return true
	}
	for _, groups := range t.of[place] {
		for _, g := range groups {
			if t.members[g] == 2 && t.isSpare(t.sums[g]-place) {
				return true
			}
		}
	}
	return false
}

// withoutSpare returns the chosen candidates without those, the last first, whose groups others of
// them are in, and counts these no longer. Without groups, that is none of them.
func (t *groupTally) withoutSpare() []int {
	needed := make([]int, 0, len(t.chosen)) // the last first
	for _, place := range slices.Backward(t.chosen) {
		if t.isSpare(place) {
			t.removeMember(place)
			continue
		}
		needed = append(needed, place)
	}
	slices.Reverse(needed)
	return needed
}

// foundWith returns how many groups of a constraint have members with one more candidate.
func (t *groupTally) foundWith(k, place int) int {
	found := t.found[k]
	for _, g := range t.of[place][k] {
		if t.members[g] == 0 {
			found++
		}
	}
	return found
}

// meetsConstraints reports whether what was chosen meets all constraints.
func (w ClusterWish) meetsConstraints(t *groupTally) bool {
	if t.size < w.Clusters.Min {
		return false
	}
	if t.size > w.Clusters.upperBound() && (w.Strict || slices.ContainsFunc(t.chosen, t.isSpare)) {
		return false
	}
	for k := range w.Groups {
		if !w.Groups[k].includesCount(t.found[k]) {
			return false
		}
	}
	return true
}
