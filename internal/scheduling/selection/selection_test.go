// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/testing/growth"
)

// clusters reads candidates such as "a/eu:5*", which is cluster a in region eu
// with room for 5 replicas, and has the object already. Further groups follow
// after further slashes, those of several zones with a plus.
func clusters(texts ...string) []ClusterCandidate {
	var candidates []ClusterCandidate
	for _, text := range texts {
		c := ClusterCandidate{}
		text, has := strings.CutSuffix(text, "*")
		if has {
			c.Score = 100
		}
		at, room, _ := strings.Cut(text, ":")
		_, _ = fmt.Sscan(room, &c.Room)
		parts := strings.Split(at, "/")
		c.Name = parts[0]
		for _, part := range parts[1:] {
			c.Groups = append(c.Groups, strings.Split(part, "+"))
		}
		candidates = append(candidates, c)
	}
	return candidates
}

func region(least, most int) GroupConstraint {
	return GroupConstraint{Bounds: Bounds{Min: least, Max: most}, Topology: "region"}
}

func zone(least, most int) GroupConstraint {
	return GroupConstraint{Bounds: Bounds{Min: least, Max: most}, Topology: "zone"}
}

func TestSelect(t *testing.T) {
	plain := clusters("a:5", "b:9", "c:2", "d:7")
	regions := clusters("a/eu:5", "b/eu:9", "c/us:2", "d/asia:7", "e/us:1", "f/us:1")
	tiers := clusters("a:5", "b:9", "c:2")
	tiers[0].Tier, tiers[1].Tier = 1, 2
	both := clusters("a/eu/z1", "b/eu/z2", "c/us/z1", "d/us/z3", "e/asia/z2")
	for name, test := range map[string]struct {
		wish       ClusterWish
		candidates []ClusterCandidate
		want       string
	}{
		"all":                                   {ClusterWish{}, plain, "a b c d"},
		"no limit is no limit":                  {ClusterWish{Clusters: Bounds{Min: 2}}, plain, "a b c d"},
		"most room first":                       {ClusterWish{Clusters: Bounds{Max: 2}}, plain, "b d"},
		"who has it comes first":                {ClusterWish{Clusters: Bounds{Max: 2}}, clusters("a:5", "b:9", "c:2*", "d:7"), "b c"},
		"names decide the rest":                 {ClusterWish{Clusters: Bounds{Max: 2}}, clusters("b", "c", "a"), "a b"},
		"tiers come first":                      {ClusterWish{Clusters: Bounds{Max: 2}}, tiers, "a c"},
		"too few":                               {ClusterWish{Clusters: Bounds{Min: 5}}, plain, "spreadConstraints want at least 5 by cluster, and the clusters that may be chosen are 4; lower minGroups or add clusters"},
		"room is made from the tail":            {ClusterWish{Clusters: Bounds{Max: 2}, ByRoom: true, Replicas: 10}, clusters("a:5", "b:1*", "c:2*", "d:9"), "c d"},
		"room is made for all":                  {ClusterWish{Clusters: Bounds{Max: 2}, ByRoom: true, Replicas: 14}, clusters("a:5", "b:1*", "c:2*", "d:9"), "a d"},
		"there is no room":                      {ClusterWish{Clusters: Bounds{Max: 2}, ByRoom: true, Replicas: 15}, clusters("a:5", "b:1*", "c:2*", "d:9"), "no enough resource when selecting 2 clusters"},
		"room does not matter":                  {ClusterWish{Clusters: Bounds{Max: 1}, Replicas: 15}, plain, "b"},
		"the region with most clusters":         {ClusterWish{Groups: []GroupConstraint{region(1, 1)}}, regions, "c e f"},
		"two regions, the best of each":         {ClusterWish{Clusters: Bounds{Max: 2}, Groups: []GroupConstraint{region(2, 2)}}, regions, "b c"},
		"two regions, and the best rest":        {ClusterWish{Clusters: Bounds{Max: 3}, Groups: []GroupConstraint{region(2, 2)}}, regions, "a b c"},
		"all regions":                           {ClusterWish{Groups: []GroupConstraint{region(3, 0)}}, regions, "a b c d e f"},
		"the fewest regions that do":            {ClusterWish{Groups: []GroupConstraint{region(1, 3)}}, regions, "c e f"},
		"more regions for more clusters":        {ClusterWish{Clusters: Bounds{Min: 4}, Groups: []GroupConstraint{region(1, 3)}}, regions, "a b c e f"},
		"by room: two regions for 10":           {ClusterWish{ByRoom: true, Replicas: 10, Groups: []GroupConstraint{region(2, 2)}}, regions, "a b d"},
		"by room: one has room for all":         {ClusterWish{ByRoom: true, Replicas: 14, Groups: []GroupConstraint{region(1, 2)}}, regions, "a b"},
		"by room: one region is not enough":     {ClusterWish{ByRoom: true, Replicas: 20, Groups: []GroupConstraint{region(1, 2)}}, regions, "a b d"},
		"by room: nowhere, and division tells":  {ClusterWish{ByRoom: true, Replicas: 99, Groups: []GroupConstraint{region(1, 2)}}, regions, "a b"},
		"too few regions":                       {ClusterWish{Groups: []GroupConstraint{region(4, 0)}}, regions, "spreadConstraints want at least 4 by region, and the clusters that may be chosen are 3; lower minGroups or add clusters"},
		"more regions than clusters":            {ClusterWish{Clusters: Bounds{Max: 2}, Groups: []GroupConstraint{region(3, 3)}}, regions, "b c d"},
		"one cluster at most, two regions":      {ClusterWish{Clusters: Bounds{Min: 1, Max: 1}, Groups: []GroupConstraint{region(2, 2)}}, clusters("a/r1", "b/r1", "c/r2"), "a c"},
		"a choice within the limit comes first": {ClusterWish{Clusters: Bounds{Max: 2}, Groups: []GroupConstraint{region(2, 2), zone(2, 2)}}, clusters("a/eu/z1", "b/eu/z1", "c/us/z1", "d/us/z1", "e/asia/z2"), "a e"},
		"the limit is strict":                   {ClusterWish{Clusters: Bounds{Max: 1}, Strict: true, Groups: []GroupConstraint{region(2, 2)}}, regions, "no choice of clusters meets the spreadConstraints by region, cluster at once; raise maxGroups or lower minGroups of one of them"},
		"no more than the groups need":          {ClusterWish{Clusters: Bounds{Max: 1}, Groups: []GroupConstraint{zone(3, 3)}}, clusters("a/z1+z2:9", "b/z2+z3:8", "c/z1+z3:7"), "a b"},
		"beyond the limit, by room":             {ClusterWish{Clusters: Bounds{Max: 1}, ByRoom: true, Replicas: 9, Groups: []GroupConstraint{region(2, 2)}}, clusters("a/r1:5*", "b/r1:8", "c/r2:2"), "b c"},
		"too few clusters in the regions":       {ClusterWish{Clusters: Bounds{Min: 6}, Groups: []GroupConstraint{region(1, 2)}}, regions, "no choice of clusters meets the spreadConstraints by region, cluster at once; raise maxGroups or lower minGroups of one of them"},
		"zones of several":                      {ClusterWish{Clusters: Bounds{Max: 1}, Groups: []GroupConstraint{zone(2, 2)}}, clusters("a/z1", "b/z1+z2", "c/z3"), "b"},
		"a cluster must not bring a third":      {ClusterWish{Groups: []GroupConstraint{zone(2, 2)}}, clusters("a/z1+z2+z3", "b/z1", "c/z2", "d/z4"), "b c"},
		"regions and zones":                     {ClusterWish{Clusters: Bounds{Max: 3}, Groups: []GroupConstraint{region(2, 2), zone(3, 3)}}, both, "a b d"},
		"regions and zones, exactly":            {ClusterWish{Clusters: Bounds{Max: 2}, Groups: []GroupConstraint{region(2, 2), zone(1, 1)}}, both, "a c"},
		"regions and zones, not together":       {ClusterWish{Groups: []GroupConstraint{region(3, 3), zone(1, 1)}}, both, "no choice of clusters meets the spreadConstraints by region, zone, cluster at once; raise maxGroups or lower minGroups of one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := chosen(test.wish, test.candidates); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// chosen returns the names of the chosen clusters, or the error.
func chosen(w ClusterWish, candidates []ClusterCandidate) string {
	places, err := w.SelectClusters(candidates)
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, i := range places {
		names = append(names, candidates[i].Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestSelectionsKeepTheirPromises selects by chance, and asks for what holds
// always. A failure names the seed.
func TestSelectionsKeepTheirPromises(t *testing.T) {
	for seed := range uint64(2000) {
		chance := rand.New(rand.NewPCG(seed, 5))
		bounds := func() Bounds {
			b := Bounds{Min: chance.IntN(4)}
			if chance.IntN(2) == 0 {
				b.Max = b.Min + 1 + chance.IntN(2)
			}
			return b
		}
		w := ClusterWish{Clusters: bounds(), Replicas: int64(chance.IntN(30)), ByRoom: chance.IntN(2) == 0}
		for range chance.IntN(3) {
			w.Groups = append(w.Groups, GroupConstraint{Bounds: bounds(), Topology: "region"})
		}
		var candidates []ClusterCandidate
		for i := range chance.IntN(10) {
			c := ClusterCandidate{Name: fmt.Sprintf("c%d", i), Score: int64(100 * chance.IntN(2)), Room: int64(chance.IntN(12))}
			for range w.Groups {
				several := min(1, len(w.Groups)-1) // which makes it hard to find a choice
				c.Groups = append(c.Groups, [][]string{{"x"}, {"y"}, {"z"}, {"x", "y"}}[chance.IntN(3+several)])
			}
			candidates = append(candidates, c)
		}
		places, err := w.SelectClusters(candidates)
		if err == nil && !meets(w, candidates, places) {
			t.Fatalf("seed %d: %v does not meet %+v: %v", seed, places, w, candidates)
		}
		if err != nil && len(w.Groups) == 1 && feasible(w, candidates) {
			t.Fatalf("seed %d: there is a choice that meets %+v: %v: %v", seed, w, candidates, err)
		}
		before := chosen(w, candidates)
		chance.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
		if after := chosen(w, candidates); before != after {
			t.Fatalf("seed %d: the order matters: %s, %s", seed, before, after)
		}
	}
}

// TestAClusterInManyZonesHidesNoChoice has a cluster say that it is in many zones, which
// come before those of the others.
func TestAClusterInManyZonesHidesNoChoice(t *testing.T) {
	in := func(name string, zones ...string) ClusterCandidate {
		return ClusterCandidate{Name: name, Room: 9, Groups: [][]string{zones}}
	}
	var many, others []string
	for i := range 100 {
		many = append(many, fmt.Sprintf("0%02d", i))
	}
	honest := make([]ClusterCandidate, 0, 30)
	for i := range 30 {
		honest = append(honest, in(fmt.Sprintf("c%02d", i), fmt.Sprintf("z%02d", i)))
		others = append(others, honest[i].Name)
	}
	for name, c := range map[string]struct {
		liar  ClusterCandidate
		zones int
	}{
		"two zones, and it is in 100":                       {in("liar", many...), 2},
		"two zones, and it is in both":                      {in("liar", many[:2]...), 2},
		"three zones, and it is in all":                     {in("liar", many[:3]...), 3},
		"five zones, and it is in all":                      {in("liar", many[:5]...), 5},
		"five zones, and it is in two, and those of others": {in("liar", "000", "001", "z00", "z01", "z02"), 5},
	} {
		for _, byRoom := range []bool{false, true} {
			wish := ClusterWish{Groups: []GroupConstraint{zone(c.zones, c.zones)}, Clusters: Bounds{Min: c.zones, Max: c.zones}, ByRoom: byRoom, Replicas: 9}
			if got, want := chosen(wish, append(slices.Clone(honest), c.liar)), strings.Join(others[:c.zones], " "); got != want {
				t.Errorf("%s, by room: %t: got %s, want %s", name, byRoom, got, want)
			}
		}
	}
}

// TestTriesShareTheSearch looks for 50 to 60 of 300 groups that have 80 clusters together,
// which none do, as each has one.
func TestTriesShareTheSearch(t *testing.T) {
	var candidates []ClusterCandidate
	var ranked []int
	for i := range 300 {
		candidates = append(candidates, ClusterCandidate{Name: fmt.Sprintf("c%03d", i), Groups: [][]string{{fmt.Sprint(i)}}})
		ranked = append(ranked, i)
	}
	steps := func(tries int) int {
		wish := ClusterWish{Groups: []GroupConstraint{zone(50, 60)}, Clusters: Bounds{Min: 80}, Tries: tries}
		s := newGroupSearch(wish, candidates)
		if chosen := s.narrowByGroups(0, ranked, nil); chosen != nil {
			t.Errorf("%d tries: %v are chosen", tries, chosen)
		}
		return s.steps
	}
	one, each := steps(0), steps(64)
	if one < stepsMax || 64*each > 20*one {
		t.Errorf("one try takes %d steps, and each of 64 takes %d", one, each)
	}
}

// TestSmallFleetsAsByHand selects from all fleets of up to four clusters in up to three groups,
// with all small bounds of the clusters and of one or two topologies: the groups are chosen first, the
// fewest that have enough clusters, with the best cluster of each, and clusters are added
// up to the limit.
func TestSmallFleetsAsByHand(t *testing.T) {
	var bounds []Bounds
	for least := range 4 {
		for _, most := range []int{0, 1, 2, 3} {
			if most == 0 || most >= least {
				bounds = append(bounds, Bounds{Min: least, Max: most})
			}
		}
	}
	cases, beyond := 0, 0
	for _, candidates := range smallFleets() {
		for _, ofClusters := range bounds {
			for _, ofGroups := range bounds {
				for _, topology := range []string{"region", "zone", "provider"} {
					w := ClusterWish{Clusters: ofClusters, Groups: []GroupConstraint{{Bounds: ofGroups, Topology: topology}}}
					cases++
					if len(selectAsByHand(t, w, candidates)) > ofClusters.upperBound() {
						beyond++
					}
				}
			}
		}
	}
	if beyond == 0 || cases == beyond {
		t.Errorf("%d of %d cases are beyond the limit of clusters", beyond, cases)
	}
}

// smallFleets returns all fleets of one to four clusters, each in one of three groups.
func smallFleets() [][]ClusterCandidate {
	groups := []string{"r1", "r2", "r3"}
	var fleets [][]ClusterCandidate
	for size := 1; size <= 4; size++ {
		for fleet := range pow(len(groups), size) {
			var candidates []ClusterCandidate
			for i, rest := 0, fleet; i < size; i, rest = i+1, rest/len(groups) {
				candidates = append(candidates, ClusterCandidate{Name: string(rune('a' + i)), Groups: [][]string{{groups[rest%len(groups)]}}})
			}
			fleets = append(fleets, candidates)
		}
	}
	return fleets
}

// selectAsByHand selects, compares with byHand, and has what was chosen stay.
func selectAsByHand(t *testing.T, w ClusterWish, candidates []ClusterCandidate) []int {
	t.Helper()
	places, err := w.SelectClusters(candidates)
	want := byHand(w, candidates)
	if (err != nil) != (want == nil) || !slices.Equal(places, want) {
		t.Fatalf("%+v from %+v: got %v, %v, want %v", w, candidates, places, err, want)
	}
	var before []ClusterCandidate
	for _, i := range want {
		before = append(before, candidates[i])
	}
	if want != nil && !w.AllowsChosen(before) {
		t.Fatalf("%+v does not allow what it has chosen: %+v", w, before)
	}
	return want
}

func pow(base, exponent int) int {
	product := 1
	for range exponent {
		product *= base
	}
	return product
}

// byHand returns what TestSmallFleetsAsByHand expects of clusters which are alike but for
// their names, each in one group; nil if nothing can be chosen.
func byHand(w ClusterWish, candidates []ClusterCandidate) []int {
	members := map[string][]int{}
	for i, c := range candidates {
		members[c.Groups[0][0]] = append(members[c.Groups[0][0]], i)
	}
	names := slices.Sorted(maps.Keys(members))
	slices.SortStableFunc(names, func(a, b string) int { return len(members[b]) - len(members[a]) })
	for size := max(1, w.Groups[0].Min); size <= min(len(names), w.Groups[0].upperBound()); size++ {
		// The greatest groups come first, so no others have enough clusters if these have not.
		var chosen, rest []int
		for _, name := range names[:size] {
			chosen, rest = append(chosen, members[name][0]), append(rest, members[name][1:]...)
		}
		slices.Sort(rest)
		if len(chosen)+len(rest) < w.Clusters.Min {
			continue
		}
		chosen = append(chosen, rest[:min(len(rest), max(0, w.Clusters.upperBound()-len(chosen)))]...)
		slices.Sort(chosen)
		return chosen
	}
	return nil
}

func meets(w ClusterWish, candidates []ClusterCandidate, places []int) bool {
	return w.meetsConstraints(numberGroups(candidates, len(w.Groups)).tallyMembers(places))
}

// feasible tries all choices.
func feasible(w ClusterWish, candidates []ClusterCandidate) bool {
	for bits := range 1 << len(candidates) {
		var places []int
		for i := range candidates {
			if bits&(1<<i) != 0 {
				places = append(places, i)
			}
		}
		if len(places) > 0 && meets(w, candidates, places) {
			return true
		}
	}
	return false
}

// TestManySpareClustersAreLeftOut has very many clusters of one region before as many that are each
// in a region of their own, and that do not move whenever one before them is left out.
func TestManySpareClustersAreLeftOut(t *testing.T) {
	growth.InProportion(t, 4_000, 16, func(many int) func() {
		candidates, chosen := make([]ClusterCandidate, many), make([]int, many)
		for i := range candidates {
			chosen[i], candidates[i].Groups = i, [][]string{{"eu"}}
			if i >= many/2 {
				candidates[i].Groups = [][]string{{fmt.Sprint(i)}}
			}
		}
		numbers := numberGroups(candidates, 1)
		return func() {
			if needed := numbers.tallyMembers(chosen).withoutSpare(); !slices.Equal(needed, append([]int{0}, chosen[many/2:]...)) {
				t.Errorf("of %d clusters %d are needed", many, len(needed))
			}
		}
	})
}
