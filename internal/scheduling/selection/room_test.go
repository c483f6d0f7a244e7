// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/growth"
)

// fleetByChance is clusters in groups of up to three topologies, and a wish for some of them.
func fleetByChance(chance *rand.Rand) (ClusterWish, []ClusterCandidate) {
	w := ClusterWish{
		Clusters: Bounds{Min: chance.IntN(3), Max: 2 + chance.IntN(3)}, ByRoom: true, Replicas: int64(10 + chance.IntN(40)), Partial: chance.IntN(2) == 0,
	}
	for range chance.IntN(4) {
		b := Bounds{Min: chance.IntN(4)}
		if chance.IntN(2) == 0 {
			b.Max = max(1, b.Min) + chance.IntN(3)
		}
		w.Groups = append(w.Groups, GroupConstraint{Bounds: b, Topology: "zone"})
	}
	var candidates []ClusterCandidate
	for i := range 2 + chance.IntN(8) {
		c := ClusterCandidate{Name: fmt.Sprintf("c%d", i), Room: int64(chance.IntN(12))}
		for range w.Groups {
			c.Groups = append(c.Groups, [][]string{{"u"}, {"v"}, {"w"}, {"x"}, {"y"}, {"x", "y"}, {"u", "v", "w"}}[chance.IntN(7)])
		}
		candidates = append(candidates, c)
	}
	return w, candidates
}

// TestRoomIsMadeAsByHand has clusters by chance replaced, and compares with who counts all groups anew for
// each of them.
func TestRoomIsMadeAsByHand(t *testing.T) {
	replaced, beyond := 0, 0
	for seed := range uint64(20_000) {
		chance := rand.New(rand.NewPCG(seed, 9))
		w, candidates := fleetByChance(chance)
		ranked := chance.Perm(len(candidates))
		chosen := slices.Clone(ranked[:1+chance.IntN(len(ranked)-1)])
		if !meetsByHand(w, candidates, chosen) {
			continue
		}
		want := roomByHand(w, candidates, chosen, ranked)
		got, err := newGroupSearch(w, candidates).makeRoom(chosen, ranked)
		if full := roomOf(candidates, want) < w.Replicas && !w.Partial; full != (err != nil) || !full && !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v becomes %v (%v), want %v: %+v from %+v", seed, chosen, got, err, want, w, candidates)
		}
		if !slices.Equal(chosen, want) {
			replaced++
			if len(w.Groups) > 0 && len(chosen) > w.Clusters.Max {
				beyond++
			}
		}
	}
	if replaced < 1000 || beyond < 10 {
		t.Errorf("of %d choices clusters are replaced, %d of them beyond the limit", replaced, beyond)
	}
}

// roomByHand returns what becomes of the chosen clusters, the worst of which are replaced first.
func roomByHand(w ClusterWish, candidates []ClusterCandidate, chosen, ranked []int) []int {
	others := slices.DeleteFunc(slices.Clone(ranked), func(i int) bool { return slices.Contains(chosen, i) })
	slices.SortStableFunc(others, func(i, j int) int { return int(candidates[j].Room - candidates[i].Room) })
	for at := len(chosen) - 1; at >= 0 && len(others) > 0 && roomOf(candidates, chosen) < w.Replicas; at-- {
		n := slices.IndexFunc(others, func(other int) bool {
			with := slices.Clone(chosen)
			with[at] = other
			return candidates[other].Room > candidates[chosen[at]].Room && meetsByHand(w, candidates, with)
		})
		if n >= 0 {
			chosen = slices.Clone(chosen)
			chosen[at] = others[n]
			others = slices.Delete(others, n, n+1)
		}
	}
	return chosen
}

// meetsByHand reports whether a choice meets all constraints. Beyond the limit of clusters, each has a group of its own.
func meetsByHand(w ClusterWish, candidates []ClusterCandidate, chosen []int) bool {
	own := map[int]bool{}
	for k, constraint := range w.Groups {
		members := map[string][]int{}
		for _, i := range chosen {
			for _, name := range candidates[i].Groups[k] {
				members[name] = append(members[name], i)
			}
		}
		if len(members) < constraint.Min || constraint.Max > 0 && len(members) > constraint.Max {
			return false
		}
		for _, in := range members {
			if len(in) == 1 {
				own[in[0]] = true
			}
		}
	}
	return len(chosen) >= w.Clusters.Min && (len(chosen) <= w.Clusters.Max || len(own) == len(chosen))
}

// TestGroupsAreCoveredAsByHand has groups by chance covered, and compares with who looks at all clusters for each that is chosen.
func TestGroupsAreCoveredAsByHand(t *testing.T) {
	covered := 0
	for seed := range uint64(20_000) {
		chance := rand.New(rand.NewPCG(seed, 10))
		w, candidates := fleetByChance(chance)
		s := newGroupSearch(w, candidates)
		ranked := chance.Perm(len(candidates))
		var wanted []int
		for number := range s.numbers.names {
			if chance.IntN(2) == 0 {
				wanted = append(wanted, number)
			}
		}
		several := ranked[:1+chance.IntN(len(ranked))]
		chosen, left := s.coverGroups(several, wanted)
		wantChosen, wantLeft := coverByHand(s, several, wanted)
		if !slices.Equal(chosen, wantChosen) || !slices.Equal(left, wantLeft) || (chosen == nil) != (wantChosen == nil) {
			t.Fatalf("seed %d: got %v and %v are left, want %v and %v: %v of %+v", seed, chosen, left, wantChosen, wantLeft, wanted, candidates)
		}
		if len(chosen) > 1 {
			covered++
		}
	}
	if covered < 1000 {
		t.Errorf("only %d choices are of several clusters", covered)
	}
}

func coverByHand(s *groupSearch, ranked, wanted []int) (chosen, left []int) {
	missing := map[int]bool{}
	for _, number := range wanted {
		missing[number] = true
	}
	chosen, left = []int{}, slices.Clone(ranked)
	for len(missing) > 0 {
		best, most := -1, 0
		for n, i := range left {
			covers := 0
			for _, number := range slices.Concat(s.numbers.of[i]...) {
				if missing[number] {
					covers++
				}
			}
			if covers > most {
				best, most = n, covers
			}
		}
		if best < 0 {
			return nil, nil
		}
		for _, number := range slices.Concat(s.numbers.of[left[best]]...) {
			delete(missing, number)
		}
		chosen = append(chosen, left[best])
		left = slices.Delete(left, best, best+1)
	}
	return chosen, left
}

// TestManyConstraintsTakeTimeInProportion has 62 constraints by labels that are alike in all clusters, and room for fewer
// replicas than there are to be: each choice of regions has half of its clusters replaced, in vain.
func TestManyConstraintsTakeTimeInProportion(t *testing.T) {
	growth.InProportion(t, 64, 16, func(many int) func() {
		w := ClusterWish{Clusters: Bounds{Max: many / 4}, ByRoom: true, Replicas: math.MaxInt32}
		for range 62 {
			w.Groups = append(w.Groups, GroupConstraint{Bounds: Bounds{Min: 1}, Topology: "label"})
		}
		w.Groups = append(w.Groups, region(5, 5))
		candidates := make([]ClusterCandidate, many)
		for i := range candidates {
			c := ClusterCandidate{Name: fmt.Sprintf("c%04d", i), Tier: i / (many / 2), Room: int64(1 + i/(many/2))}
			for range 62 {
				c.Groups = append(c.Groups, []string{"default"})
			}
			c.Groups = append(c.Groups, []string{fmt.Sprint(i % 10)})
			candidates[i] = c
		}
		return func() {
			if chosen, err := w.SelectClusters(candidates); err != nil || len(chosen) != many/4 {
				t.Errorf("%d clusters are chosen: %v", len(chosen), err)
			}
		}
	})
}

// TestACrowdHidesNoGroups has half of the clusters in one zone, before as many that are each in a zone of their own.
func TestACrowdHidesNoGroups(t *testing.T) {
	growth.InProportion(t, 4_000, 16, func(many int) func() {
		candidates, ranked := make([]ClusterCandidate, many), make([]int, many)
		for i := range candidates {
			ranked[i], candidates[i].Groups = i, [][]string{{"eu"}, {"crowd"}}
			if i >= many/2 {
				candidates[i].Groups[1] = []string{fmt.Sprint(i)}
			}
		}
		s := newGroupSearch(ClusterWish{Groups: []GroupConstraint{region(1, 1), zone(1, 0)}}, candidates)
		wanted := make([]int, len(s.numbers.names))
		for number := range wanted {
			wanted[number] = number
		}
		return func() {
			if chosen, _ := s.coverGroups(ranked, wanted); !slices.Equal(chosen, append([]int{0}, ranked[many/2:]...)) {
				t.Errorf("of %d clusters %d are chosen", many, len(chosen))
			}
		}
	})
}

// TestTriesInVainAreCounted has 400 zones of two clusters each, of which the roomy one is the last that is tried instead of
// the other one, and 398 of them chosen in many ways, none of which has room for all replicas.
func TestTriesInVainAreCounted(t *testing.T) {
	const zones = 400
	var candidates []ClusterCandidate
	for i := range zones {
		in := [][]string{{fmt.Sprint(i)}}
		candidates = append(candidates, ClusterCandidate{Name: fmt.Sprintf("a%03d", i), Room: 1, Groups: in},
			ClusterCandidate{Name: fmt.Sprintf("b%03d", i), Tier: 1, Room: int64(2 + zones - i), Groups: in})
	}
	w := ClusterWish{Clusters: Bounds{Max: zones - 2}, Groups: []GroupConstraint{zone(zones-2, zones-2)}, ByRoom: true, Replicas: math.MaxInt32}
	s := newGroupSearch(w, candidates)
	chosen, err := s.byGroups(rankCandidates(candidates))
	if most := s.looksMost + 4*len(candidates); err != nil || len(chosen) != zones-2 || s.looks <= s.looksMost || s.looks > most {
		t.Errorf("%d clusters are chosen after %d looks, want %d at most: %v", len(chosen), s.looks, most, err)
	}
}

// TestAnOrdinarySearchIsNotSpent looks for 100 of 1,000 clusters in ten of 20 regions, in which there is not enough room.
func TestAnOrdinarySearchIsNotSpent(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 11))
	var candidates []ClusterCandidate
	for i := range 1000 {
		at := chance.IntN(20)
		candidates = append(candidates, ClusterCandidate{
			Name: fmt.Sprintf("c%03d", i), Room: int64(chance.IntN(100)), Groups: [][]string{{fmt.Sprint(at)}, {fmt.Sprint(i % 3)}},
		})
	}
	for _, clusters := range []int{10, 30, 100, 500} {
		w := ClusterWish{
			Clusters: Bounds{Max: clusters}, ByRoom: true, Replicas: math.MaxInt32,
			Groups: []GroupConstraint{region(10, 10), {Bounds: Bounds{Min: 2}, Topology: "provider"}},
		}
		s := newGroupSearch(w, candidates)
		chosen, err := s.byGroups(rankCandidates(candidates))
		if err != nil || s.choices <= choicesMax/2 || s.looks > s.looksMost/2 {
			t.Errorf("%d of %d clusters are chosen after %d choices and %d of %d looks: %v", len(chosen), clusters, s.choices, s.looks, s.looksMost, err)
		}
	}
}
