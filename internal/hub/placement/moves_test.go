// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

func TestWrites(t *testing.T) {
	cases := map[string]struct {
		reason        string
		before, after []decisionSlice
		want          decisionWrites
	}{
		"the first": {after: []decisionSlice{{Number: 1}}, want: decisionWrites{First: []decisionSlice{{Number: 1}}}},
		"nothing":   {before: []decisionSlice{{Number: 1, Clusters: names(1, 2)}}, after: []decisionSlice{{Number: 1, Clusters: names(1, 2)}}},
		"one more":  {before: []decisionSlice{{Number: 1, Clusters: names(1, 2)}}, after: []decisionSlice{{Number: 1, Clusters: names(1, 3)}}, want: decisionWrites{First: []decisionSlice{{Number: 1, Clusters: names(1, 3)}}}},
		"one goes":  {before: []decisionSlice{{Number: 1, Clusters: names(1, 2)}, {Number: 2, Clusters: names(3, 3)}}, after: []decisionSlice{{Number: 1, Clusters: names(1, 2)}}, want: decisionWrites{Gone: []decisionSlice{{Number: 2, Clusters: names(3, 3)}}}},
		"somebody has changed it": {
			reason: "it is written again", before: []decisionSlice{{Number: 1, Clusters: names(1, 2), Edited: true}}, after: []decisionSlice{{Number: 1, Clusters: names(1, 2)}},
			want: decisionWrites{First: []decisionSlice{{Number: 1, Clusters: names(1, 2)}}},
		},
		"full slices": {
			reason: "there is room for a cluster that moves", before: []decisionSlice{{Number: 1, Clusters: names(1, 100)}, {Number: 2, Clusters: names(101, 200)}},
			after: []decisionSlice{{Number: 1, Clusters: append(names(1, 99), "c101")}, {Number: 2, Clusters: append(names(100, 100), names(102, 200)...)}},
			want: decisionWrites{
				First: []decisionSlice{{Number: 1, Clusters: names(1, 101)}, {Number: 2, Clusters: names(100, 200)}},
				Then:  []decisionSlice{{Number: 1, Clusters: append(names(1, 99), "c101")}, {Number: 2, Clusters: append(names(100, 100), names(102, 200)...)}},
			},
		},
		"a cluster moves": {
			reason: "it is in both between", before: []decisionSlice{{Number: 1, Clusters: names(1, 2)}, {Number: 2, Group: 1, Clusters: names(3, 3)}},
			after: []decisionSlice{{Number: 1, Clusters: names(1, 1)}, {Number: 2, Group: 1, Clusters: names(2, 3)}},
			want:  decisionWrites{First: []decisionSlice{{Number: 2, Group: 1, Clusters: names(2, 3)}}, Then: []decisionSlice{{Number: 1, Clusters: names(1, 1)}}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, planDecisionWrites(tc.before, tc.after)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestNobodyIsMissingBetweenWrites makes the writes of changes by chance one by
// one, those of a step in any order. A failure names the seed.
func TestNobodyIsMissingBetweenWrites(t *testing.T) {
	for seed := range uint64(120) {
		chance := rand.New(rand.NewPCG(seed, 2))
		var before []decisionSlice
		for range 3 {
			groups := make([]scheduler.DecisionGroup, 1+chance.IntN(3))
			for _, c := range names(1, chance.IntN([]int{40, 400}[seed%2])) {
				g := chance.IntN(len(groups))
				groups[g].Clusters = append(groups[g].Clusters, c)
			}
			after := divide(groups, before, freeNumbers(before, nil))
			if seed%3 == 0 {
				scores := map[string]int64{}
				for _, c := range names(1, 400) {
					scores[c] = chance.Int64N(5)
				}
				after = rankByScore(groups, scores, before, freeNumbers(before, nil))
			}
			now := map[int]decisionSlice{}
			for _, s := range before {
				now[s.Number] = s
			}
			staying := sets.New(listedClusters(before)...).Intersection(sets.New(listedClusters(after)...))
			w := planDecisionWrites(before, after)
			for _, step := range [][]decisionSlice{w.First, w.Then} {
				chance.Shuffle(len(step), func(i, j int) { step[i], step[j] = step[j], step[i] })
				for _, s := range step {
					now[s.Number] = s
					if missing := staying.Difference(sets.New(listedClusters(slices.Collect(maps.Values(now)))...)); len(missing) > 0 {
						t.Fatalf("seed %d: %v are missing between the writes", seed, sets.List(missing))
					}
				}
			}
			for _, s := range w.Gone {
				delete(now, s.Number)
			}
			got := slices.SortedFunc(maps.Values(now), func(a, b decisionSlice) int { return a.Number - b.Number })
			if diff := cmp.Diff(after, got); diff != "" {
				t.Fatalf("seed %d: the writes lead elsewhere (-want +got):\n%s", seed, diff)
			}
			before = after
		}
	}
}
