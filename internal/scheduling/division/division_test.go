// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package division

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestWebster(t *testing.T) {
	cases := map[string]struct {
		seats   int64
		parties []Party
		tie     TieBreak
		want    []ReplicaShare
	}{
		"nobody":                 {seats: 3},
		"nothing":                {parties: []Party{{"a", 1}}},
		"in proportion":          {seats: 6, parties: []Party{{"b", 2}, {"a", 1}}, want: []ReplicaShare{{"a", 2}, {"b", 4}}},
		"the first by name":      {seats: 1, parties: []Party{{"b", 1}, {"a", 1}}, want: []ReplicaShare{{"a", 1}}},
		"the last by name":       {seats: 1, parties: []Party{{"a", 1}, {"b", 1}}, tie: LastByName, want: []ReplicaShare{{"b", 1}}},
		"fewer seats come first": {seats: 2, parties: []Party{{"a", 3}, {"b", 1}}, want: []ReplicaShare{{"a", 1}, {"b", 1}}},
		"an election":            {seats: 7, parties: []Party{{"a", 53000}, {"b", 24000}, {"c", 23000}}, want: []ReplicaShare{{"a", 3}, {"b", 2}, {"c", 2}}},
		"without weight":         {seats: 3, parties: []Party{{"a", 0}, {"b", 5}}, want: []ReplicaShare{{"b", 3}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := gocmp.Diff(tc.want, Webster(tc.seats, tc.parties, tc.tie)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDivide(t *testing.T) {
	abc := []ReplicaCandidate{{Cluster: "a", Weight: 1, Available: 10}, {Cluster: "b", Weight: 2, Available: 20}, {Cluster: "c", Available: 5}}
	cases := map[string]struct {
		reason     string
		division   ReplicaWish
		candidates []ReplicaCandidate
		previous   []ReplicaShare
		want       []ReplicaShare
		noRoom     bool
	}{
		"duplicated":          {division: ReplicaWish{Strategy: Duplicated, Replicas: 2}, candidates: abc, want: []ReplicaShare{{"a", 2}, {"b", 2}, {"c", 2}}},
		"static":              {reason: "who has no weight gets nothing", division: ReplicaWish{Strategy: StaticWeight, Replicas: 6}, candidates: abc, previous: []ReplicaShare{{"c", 6}}, want: []ReplicaShare{{"a", 2}, {"b", 4}}},
		"static, all alike":   {reason: "no weights are equal weights", division: ReplicaWish{Strategy: StaticWeight, Replicas: 2}, candidates: []ReplicaCandidate{{Cluster: "b"}, {Cluster: "a"}}, want: []ReplicaShare{{"a", 1}, {"b", 1}}},
		"dynamic":             {reason: "by the room", division: ReplicaWish{Strategy: DynamicWeight, Replicas: 7}, candidates: abc, want: []ReplicaShare{{"a", 2}, {"b", 4}, {"c", 1}}},
		"dynamic, more":       {reason: "what is there stays, and the rest goes by the room", division: ReplicaWish{Strategy: DynamicWeight, Replicas: 7}, candidates: abc, previous: []ReplicaShare{{"c", 4}}, want: []ReplicaShare{{"a", 1}, {"b", 2}, {"c", 4}}},
		"dynamic, fewer":      {reason: "in proportion to what is there", division: ReplicaWish{Strategy: DynamicWeight, Replicas: 3}, candidates: abc, previous: []ReplicaShare{{"a", 2}, {"c", 4}}, want: []ReplicaShare{{"a", 1}, {"c", 2}}},
		"dynamic, the same":   {reason: "nothing moves", division: ReplicaWish{Strategy: DynamicWeight, Replicas: 6}, candidates: abc, previous: []ReplicaShare{{"c", 4}, {"a", 2}}, want: []ReplicaShare{{"a", 2}, {"c", 4}}},
		"dynamic, anew":       {reason: "with the room of the replicas themselves", division: ReplicaWish{Strategy: DynamicWeight, Replicas: 4, Fresh: true}, candidates: []ReplicaCandidate{{Cluster: "a", Available: 2}, {Cluster: "b", Available: 2}}, previous: []ReplicaShare{{"a", 4}}, want: []ReplicaShare{{"a", 3}, {"b", 1}}},
		"dynamic, overdrawn":  {reason: "without that of those that have none", division: ReplicaWish{Strategy: DynamicWeight, Replicas: 4, Fresh: true}, candidates: []ReplicaCandidate{{Cluster: "a", Available: -3}, {Cluster: "b", Available: 3}}, previous: []ReplicaShare{{"a", 4}}, want: []ReplicaShare{{"a", 1}, {"b", 3}}},
		"dynamic, who left":   {reason: "its replicas go elsewhere", division: ReplicaWish{Strategy: DynamicWeight, Replicas: 4}, candidates: abc[:1], previous: []ReplicaShare{{"z", 4}}, want: []ReplicaShare{{"a", 4}}},
		"dynamic, no room":    {reason: "nothing is placed", division: ReplicaWish{Strategy: DynamicWeight, Replicas: 36}, candidates: abc, noRoom: true},
		"aggregated":          {reason: "one has room", division: ReplicaWish{Strategy: Aggregated, Replicas: 12}, candidates: abc, want: []ReplicaShare{{"b", 12}}},
		"aggregated, two":     {reason: "those with most room", division: ReplicaWish{Strategy: Aggregated, Replicas: 30}, candidates: abc, want: []ReplicaShare{{"a", 10}, {"b", 20}}},
		"aggregated, more":    {reason: "where it is already comes first", division: ReplicaWish{Strategy: Aggregated, Replicas: 8}, candidates: abc, previous: []ReplicaShare{{"c", 3}}, want: []ReplicaShare{{"c", 8}}},
		"aggregated, no room": {reason: "nothing is placed", division: ReplicaWish{Strategy: Aggregated, Replicas: 36}, candidates: abc, noRoom: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := tc.division.DivideReplicas(tc.candidates, tc.previous)
			if _, isNoRoom := errors.AsType[*NoRoomError](err); isNoRoom != tc.noRoom {
				t.Fatalf("%s: the error is %v", tc.reason, err)
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestWhatThereIsRoomForIsPlaced(t *testing.T) {
	abc := []ReplicaCandidate{{Cluster: "a", Available: 2}, {Cluster: "b", Available: 4}, {Cluster: "c", Tier: 1, Available: 1}}
	for name, tc := range map[string]struct {
		wish           ReplicaWish
		previous, want []ReplicaShare
		lacks          int64
	}{
		"all fit":                 {ReplicaWish{Strategy: DynamicWeight, Replicas: 3}, nil, []ReplicaShare{{"a", 1}, {"b", 2}}, 0},
		"some fit":                {ReplicaWish{Strategy: DynamicWeight, Replicas: 9}, nil, []ReplicaShare{{"a", 2}, {"b", 4}, {"c", 1}}, 2},
		"some fit, aggregated":    {ReplicaWish{Strategy: Aggregated, Replicas: 9}, nil, []ReplicaShare{{"a", 2}, {"b", 4}, {"c", 1}}, 2},
		"beside what is placed":   {ReplicaWish{Strategy: DynamicWeight, Replicas: 20}, []ReplicaShare{{"a", 5}, {"z", 3}}, []ReplicaShare{{"a", 7}, {"b", 4}, {"c", 1}}, 8},
		"anew":                    {ReplicaWish{Strategy: DynamicWeight, Replicas: 20, Fresh: true}, []ReplicaShare{{"a", 5}}, []ReplicaShare{{"a", 7}, {"b", 4}, {"c", 1}}, 8},
		"fewer: nothing is short": {ReplicaWish{Strategy: DynamicWeight, Replicas: 3}, []ReplicaShare{{"a", 5}}, []ReplicaShare{{"a", 3}}, 0},
	} {
		tc.wish.Partial = true
		got, err := tc.wish.DivideReplicas(abc, tc.previous)
		short, isShort := errors.AsType[*NoRoomError](err)
		if diff := gocmp.Diff(tc.want, got); diff != "" || isShort != (tc.lacks > 0) {
			t.Errorf("%s: the error is %v (-want +got):\n%s", name, err, diff)
		}
		if isShort && short.Wanted-short.Available != tc.lacks {
			t.Errorf("%s: %d are short of %d, want %d to be", name, short.Available, short.Wanted, tc.lacks)
		}
	}
}

func TestTheTextOfNoRoomIsKnown(t *testing.T) {
	_, err := ReplicaWish{Strategy: DynamicWeight, Replicas: 3}.DivideReplicas([]ReplicaCandidate{{Cluster: "a", Available: 2}}, nil)
	if want := "Clusters available replicas 2 are not enough to schedule."; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestTiesAreBrokenByTheTemplate(t *testing.T) {
	if TieBreakOf("") != FirstByName {
		t.Error("without a UID the first by name comes first")
	}
	seen := map[TieBreak]bool{}
	for i := range 64 {
		seen[TieBreakOf(fmt.Sprintf("template-%d", i))] = true
	}
	if len(seen) != 2 {
		t.Error("all templates have their ties broken the same way")
	}
}

// TestDivisionsKeepTheirPromises divides by chance, and asks for what holds
// always. A failure names the seed.
func TestDivisionsKeepTheirPromises(t *testing.T) {
	for seed := range uint64(2000) {
		chance := rand.New(rand.NewPCG(seed, 1))
		d := ReplicaWish{
			Strategy: []Strategy{StaticWeight, DynamicWeight, Aggregated}[chance.IntN(3)],
			Replicas: int32(chance.IntN(40)), Fresh: chance.IntN(4) == 0, Tie: chance.IntN(2) == 0,
		}
		var candidates []ReplicaCandidate
		var previous []ReplicaShare
		for i := range 1 + chance.IntN(6) {
			name := fmt.Sprintf("c%d", i)
			candidates = append(candidates, ReplicaCandidate{Cluster: name, Weight: int64(chance.IntN(4)), Available: int32(chance.IntN(20))})
			if chance.IntN(2) == 0 {
				previous = append(previous, ReplicaShare{name, int32(chance.IntN(12))})
			}
		}
		got, err := d.DivideReplicas(candidates, previous)
		if err != nil {
			continue
		}
		if sum := totalReplicas(got); sum != int64(d.Replicas) {
			t.Fatalf("seed %d: %d of %d replicas are placed: %v", seed, sum, d.Replicas, got)
		}
		if !slices.IsSortedFunc(got, func(a, b ReplicaShare) int { return cmp.Compare(a.Cluster, b.Cluster) }) {
			t.Fatalf("seed %d: not in the order of names: %v", seed, got)
		}
		shuffled := slices.Clone(previous)
		chance.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again, _ := d.DivideReplicas(candidates, shuffled); d.Strategy == StaticWeight && !slices.Equal(got, again) {
			t.Fatalf("seed %d: the order of what was decided matters: %v, %v", seed, got, again)
		}
		if d.Strategy != StaticWeight && !d.Fresh {
			checkSteps(t, seed, d, previous, got)
		}
	}
}

// checkSteps makes sure that growing takes nothing away and shrinking adds nothing.
func checkSteps(t *testing.T, seed uint64, d ReplicaWish, previous, got []ReplicaShare) {
	t.Helper()
	had, has := sharesOf(previous), sharesOf(got)
	for cluster, before := range had {
		switch after := has[cluster]; {
		case totalReplicas(previous) <= int64(d.Replicas) && after < before:
			t.Fatalf("seed %d: %s had %d replicas and has %d, although more were wanted", seed, cluster, before, after)
		case totalReplicas(previous) >= int64(d.Replicas) && after > before:
			t.Fatalf("seed %d: %s had %d replicas and has %d, although fewer were wanted", seed, cluster, before, after)
		}
	}
}

// TestWebsterIsWebster compares with the method written down as it is defined.
func TestWebsterIsWebster(t *testing.T) {
	for seed := range uint64(500) {
		chance := rand.New(rand.NewPCG(seed, 2))
		var parties []Party
		for i := range 1 + chance.IntN(8) {
			parties = append(parties, Party{fmt.Sprintf("p%d", i), int64(1 + chance.IntN(9))})
		}
		seats := int64(chance.IntN(60))
		if seed%10 == 0 {
			seats *= 50
			parties[0].Weight *= int64(1 + chance.IntN(1000))
		}
		want := map[string]int32{}
		for range seats {
			best := slices.MinFunc(parties, func(a, b Party) int {
				left := float64(b.Weight) / float64(2*want[b.Cluster]+1)
				right := float64(a.Weight) / float64(2*want[a.Cluster]+1)
				return cmp.Or(cmp.Compare(left, right), cmp.Compare(want[a.Cluster], want[b.Cluster]), cmp.Compare(a.Cluster, b.Cluster))
			})
			want[best.Cluster]++
		}
		if diff := gocmp.Diff(want, sharesOf(Webster(seats, parties, FirstByName))); diff != "" && seats > 0 {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

// TestManySeatsTakeNoTime divides what a user may ask for by mistake.
func TestManySeatsTakeNoTime(t *testing.T) {
	const most = math.MaxInt32
	for want, parties := range map[string][]Party{
		"[{a 1073741824} {b 1073741823}]":             {{"a", 1}, {"b", 1}},
		"[{a 715827883} {b 715827882} {c 715827882}]": {{"a", 0}, {"b", 0}, {"c", 0}},
		"[{a 2147483647}]":                            {{"a", math.MaxInt64}, {"b", 1}},
		"[{a 536870912} {b 1610612735}]":              {{"a", 1}, {"b", 3}},
	} {
		if got := fmt.Sprint(Webster(most, parties, FirstByName)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
