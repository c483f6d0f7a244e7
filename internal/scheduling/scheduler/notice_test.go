// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

func TestNoticesNameWhatHasNoEffect(t *testing.T) {
	heat := view.ScoreName{Resource: "demo", Score: "heat"}
	scored := func(name string, until time.Time) view.Cluster {
		return view.Cluster{Name: name, Scores: map[view.ScoreName]view.Score{heat: {Value: 1, Until: until}}}
	}
	fleet := view.NewFleet(scored("a", time.Time{}), scored("b", noon), view.Cluster{Name: "c"})
	scorers := []WeightedScorer{{Path: field.NewPath("scorers").Index(0), Scorer: AddOn{Score: heat}, Weight: 1}}
	spread := []SpreadConstraint{{Path: field.NewPath("spread").Index(0), Key: "zone", MaxSkew: 1}}
	const (
		noScore = `scorers[0]: 2 of 3 clusters have no valid score "heat" and count as 0; check that the add-on keeps AddOnPlacementScore "demo" up to date in their namespaces`
		noZone  = "spread[0].topologyKey: none of 3 clusters has label zone; add it to the clusters or use another key"
	)
	cases := map[string]struct {
		reason string
		spec   RequestSpec
		want   []string
	}{
		"a score that expired and one that never came": {reason: "both count as 0", spec: RequestSpec{Scorers: scorers, Count: new(1)}, want: []string{noScore}},
		"scores, and all clusters wanted":              {reason: "every cluster is chosen whatever its score", spec: RequestSpec{Scorers: scorers}},
		"a key that no cluster has":                    {reason: "every cluster is as good", spec: RequestSpec{Spread: spread}, want: []string{noZone}},
		"both":                                         {reason: "scores decide within a zone", spec: RequestSpec{Scorers: scorers, Spread: spread}, want: []string{noScore, noZone}},
		"no cluster at all":                            {reason: "the filters are why", spec: RequestSpec{Scorers: scorers, Spread: spread, Count: new(1), Sets: []ClusterSet{}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, notice := range ScheduleClusters(fleet, compiled(t, tc.spec), nil, noon).IneffectiveNotices() {
				got = append(got, notice.Path.String()+": "+notice.Text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
