// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

func names(from, to int) []string {
	var all []string
	for i := from; i <= to; i++ {
		all = append(all, fmt.Sprintf("c%03d", i))
	}
	return all
}

func TestSlices(t *testing.T) {
	cases := map[string]struct {
		reason string
		groups []scheduler.DecisionGroup
		before []decisionSlice
		others []int
		want   []decisionSlice
	}{
		"nobody":    {reason: "there is one slice", groups: []scheduler.DecisionGroup{{}}, want: []decisionSlice{{Number: 1}}},
		"a few":     {groups: []scheduler.DecisionGroup{{Clusters: names(1, 3)}}, want: []decisionSlice{{Number: 1, Clusters: names(1, 3)}}},
		"many":      {reason: "a slice has a hundred", groups: []scheduler.DecisionGroup{{Clusters: names(1, 201)}}, want: []decisionSlice{{Number: 1, Clusters: names(1, 100)}, {Number: 2, Clusters: names(101, 200)}, {Number: 3, Clusters: names(201, 201)}}},
		"groups":    {reason: "each has slices of its own", groups: []scheduler.DecisionGroup{{Name: "canary", Clusters: names(1, 1)}, {Clusters: names(2, 3)}}, want: []decisionSlice{{Number: 1, Name: "canary", Clusters: names(1, 1)}, {Number: 2, Group: 1, Clusters: names(2, 3)}}},
		"one more":  {reason: "only the slice with room changes", groups: []scheduler.DecisionGroup{{Clusters: names(0, 150)}}, before: []decisionSlice{{Number: 1, Clusters: names(1, 100)}, {Number: 2, Clusters: names(101, 150)}}, want: []decisionSlice{{Number: 1, Clusters: names(1, 100)}, {Number: 2, Clusters: append(names(0, 0), names(101, 150)...)}}},
		"one fewer": {reason: "nobody moves up", groups: []scheduler.DecisionGroup{{Clusters: names(2, 150)}}, before: []decisionSlice{{Number: 1, Clusters: names(1, 100)}, {Number: 2, Clusters: names(101, 150)}}, want: []decisionSlice{{Number: 1, Clusters: names(2, 100)}, {Number: 2, Clusters: names(101, 150)}}},
		"taken":     {reason: "a number that is somebody else's is not used", groups: []scheduler.DecisionGroup{{Clusters: names(1, 1)}}, others: []int{1, 2}, want: []decisionSlice{{Number: 3, Clusters: names(1, 1)}}},
		"too many":  {reason: "what is left of a move that was broken off is mended", groups: []scheduler.DecisionGroup{{Clusters: names(1, 101)}}, before: []decisionSlice{{Number: 1, Clusters: names(1, 101)}}, want: []decisionSlice{{Number: 1, Clusters: names(1, 100)}, {Number: 2, Clusters: names(101, 101)}}},
		"an empty one": {
			reason: "it was created, and its creator died", groups: []scheduler.DecisionGroup{{Clusters: names(1, 150)}}, before: []decisionSlice{{Number: 1}, {Number: 2, Clusters: names(1, 50)}},
			want: []decisionSlice{{Number: 1, Clusters: names(101, 150)}, {Number: 2, Clusters: names(1, 100)}},
		},
		"nobody is left": {reason: "the first slice stays, empty", groups: []scheduler.DecisionGroup{{}}, before: []decisionSlice{{Number: 1, Clusters: names(1, 100)}, {Number: 2, Clusters: names(101, 150)}}, want: []decisionSlice{{Number: 1}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, divide(tc.groups, tc.before, freeNumbers(tc.before, tc.others))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// scored gives clusters scores: the first the best, one less for each.
func scored(clusters []string) map[string]int64 {
	scores := map[string]int64{}
	for n, c := range clusters {
		scores[c] = int64(100 - n)
	}
	return scores
}

func TestSlicesByScore(t *testing.T) {
	backwards := names(1, 150)
	slices.Reverse(backwards)
	best := scored(backwards)
	listing := func(number, group int, clusters []string) decisionSlice {
		return decisionSlice{Number: number, Group: group, Clusters: clusters, Scores: scoresOfClusters(clusters, best)}
	}
	cases := map[string]struct {
		reason string
		groups []scheduler.DecisionGroup
		scores map[string]int64
		before []decisionSlice
		want   []decisionSlice
	}{
		"nobody": {reason: "there is one slice", groups: []scheduler.DecisionGroup{{}}, scores: best, want: []decisionSlice{{Number: 1}}},
		"many":   {reason: "the slices are one list", groups: []scheduler.DecisionGroup{{Clusters: names(1, 150)}}, scores: best, want: []decisionSlice{listing(1, 0, backwards[:100]), listing(2, 0, backwards[100:])}},
		"groups": {
			reason: "scores decide the order within a group, not the group", groups: []scheduler.DecisionGroup{{Clusters: names(1, 2)}, {Clusters: names(3, 4)}}, scores: best,
			want: []decisionSlice{listing(1, 0, []string{"c002", "c001"}), listing(2, 1, []string{"c004", "c003"})},
		},
		"equal scores": {
			reason: "names decide", groups: []scheduler.DecisionGroup{{Clusters: names(1, 2)}}, scores: map[string]int64{"c001": 7, "c002": 7},
			want: []decisionSlice{{Number: 1, Clusters: names(1, 2), Scores: map[string]int64{"c001": 7, "c002": 7}}},
		},
		"a number that is free again": {
			reason: "the order is that of numbers", groups: []scheduler.DecisionGroup{{Clusters: names(1, 150)}}, scores: best, before: []decisionSlice{{Number: 2, Clusters: names(1, 100)}},
			want: []decisionSlice{listing(1, 0, backwards[:100]), listing(2, 0, backwards[100:])},
		},
		"fewer": {reason: "the first slices stay", groups: []scheduler.DecisionGroup{{Clusters: names(1, 2)}}, scores: best, before: []decisionSlice{{Number: 2}, {Number: 3}}, want: []decisionSlice{listing(2, 0, []string{"c002", "c001"})}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, rankByScore(tc.groups, tc.scores, tc.before, freeNumbers(tc.before, nil))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestScoresAloneAreWrittenNowAndThen(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hot := view.ScoreName{Resource: "demo", Score: "heat"}
	cluster := func(name string, score int32) view.Cluster {
		return view.Cluster{Name: name, Scores: map[view.ScoreName]view.Score{hot: {Value: score}}}
	}
	p := &clusterv1beta1.Placement{
		Spec: clusterv1beta1.PlacementSpec{SortBy: clusterv1beta1.SortByScore, PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
			Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: []clusterv1beta1.PrioritizerConfig{{Weight: 1, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
				Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "demo", ScoreName: "heat"},
			}}},
		}},
		Status: clusterv1beta1.PlacementStatus{LastScoreUpdateTime: new(metav1.NewTime(noon))},
	}
	request, problems := placement.CompilePlacement(p, []scheduler.ClusterSet{{Clusters: labels.Everything()}})
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	before := []decisionSlice{{Number: 1, Clusters: []string{"a", "b"}, Scores: map[string]int64{"a": 20, "b": 10}}}
	edited := slices.Clone(before)
	edited[0].Edited = true
	cases := map[string]struct {
		fleet  view.Fleet
		before []decisionSlice
		at     time.Time
		want   []string
		again  time.Time
	}{
		"nothing has changed":               {fleet: view.NewFleet(cluster("a", 20), cluster("b", 10)), before: before, at: noon, want: []string{"a", "b"}},
		"scores have changed, a moment ago": {fleet: view.NewFleet(cluster("a", 20), cluster("b", 30)), before: before, at: noon.Add(time.Second), want: []string{"a", "b"}, again: noon.Add(time.Minute)},
		"scores have changed, a minute ago": {fleet: view.NewFleet(cluster("a", 20), cluster("b", 30)), before: before, at: noon.Add(time.Minute), want: []string{"b", "a"}},
		"the choice has changed as well":    {fleet: view.NewFleet(cluster("a", 20), cluster("b", 30), cluster("c", 25)), before: before, at: noon, want: []string{"b", "c", "a"}},
		"somebody has changed it":           {fleet: view.NewFleet(cluster("a", 20), cluster("b", 30)), before: edited, at: noon, want: []string{"b", "a"}},
		"there were no scores before":       {fleet: view.NewFleet(cluster("a", 20), cluster("b", 30)), before: []decisionSlice{{Number: 1, Clusters: []string{"a", "b"}}}, at: noon, want: []string{"b", "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := scheduler.ScheduleClusters(tc.fleet, request.ClusterRequest, nil, tc.at)
			got, again := arrangeSlices(p, request, chosenGroups{request.Grouping.DivideTargets(tc.fleet, result.Targets), result}, storedDecisions{slices: tc.before}, tc.at)
			if !slices.Equal(listedClusters(got), tc.want) || !again.Equal(tc.again) {
				t.Errorf("the order is %v until %s, want %v until %s", listedClusters(got), again, tc.want, tc.again)
			}
		})
	}
}

// TestSlicesKeepTheirPromises divides by chance, again and again. A failure
// names the seed.
func TestSlicesKeepTheirPromises(t *testing.T) {
	for seed := range uint64(300) {
		chance := rand.New(rand.NewPCG(seed, 1))
		var before []decisionSlice
		for range 5 {
			groups := make([]scheduler.DecisionGroup, 1+chance.IntN(3))
			where := map[string]int{}
			for _, c := range names(1, chance.IntN(400)) {
				if chance.IntN(5) > 0 {
					g := chance.IntN(len(groups))
					groups[g].Clusters, where[c] = append(groups[g].Clusters, c), g
				}
			}
			after := divide(groups, before, freeNumbers(before, nil))
			seen, numbers := map[string]bool{}, map[int]bool{}
			for _, s := range after {
				if len(s.Clusters) > clusterv1beta1.DecisionsMax || !slices.IsSorted(s.Clusters) || numbers[s.Number] || s.Number < 1 {
					t.Fatalf("seed %d: slice %d of group %d has %d clusters", seed, s.Number, s.Group, len(s.Clusters))
				}
				numbers[s.Number] = true
				for _, c := range s.Clusters {
					if g, wanted := where[c]; !wanted || g != s.Group || seen[c] {
						t.Fatalf("seed %d: %s is in slice %d", seed, c, s.Number)
					}
					seen[c] = true
				}
			}
			if len(seen) != len(where) {
				t.Fatalf("seed %d: %d of %d clusters are in a slice", seed, len(seen), len(where))
			}
			before = after
		}
	}
}
