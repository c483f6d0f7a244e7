// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"testing"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// zoned returns clusters named after their zones: a1 is in zone a. Those whose
// names begin with x are in none.
func zoned(names ...string) view.Fleet {
	var clusters []view.Cluster
	for _, name := range names {
		c := view.Cluster{Name: name, Decisions: int(name[1] - '0'), Claims: map[string]string{}}
		if name[0] != 'x' {
			c.Labels = map[string]string{"zone": name[:1]}
			c.Claims["half"] = map[bool]string{true: "left", false: "right"}[name[0] < 'c']
		}
		clusters = append(clusters, c)
	}
	return view.NewFleet(clusters...)
}

func TestSpread(t *testing.T) {
	zones := SpreadConstraint{Key: "zone", MaxSkew: 1, Hard: true}
	soft := SpreadConstraint{Key: "zone", MaxSkew: 1}
	halves := SpreadConstraint{Key: "half", Claim: true, MaxSkew: 1, Hard: true}
	fleet := zoned("a1", "a2", "a3", "b4", "b5", "c6", "x0")
	cases := map[string]struct {
		reason      string
		constraints []SpreadConstraint
		count       *int
		want        []string
		barred      string
	}{
		"one of each zone": {reason: "the best of each", constraints: []SpreadConstraint{zones}, count: new(3), want: []string{"a1", "b4", "c6"}},
		"as even as it can be": {
			reason: "zone c has no more, so no zone may have three", constraints: []SpreadConstraint{zones}, count: new(6), want: []string{"a1", "a2", "b4", "b5", "c6"},
			barred: "one more with label zone=a would be more than maxSkew 1 ahead of another",
		},
		"a wider skew":           {reason: "zones a and b may be two ahead", constraints: []SpreadConstraint{{Key: "zone", MaxSkew: 2, Hard: true}}, count: new(4), want: []string{"a1", "a2", "b4", "b5"}},
		"a preference":           {reason: "the one without a zone comes last but comes", constraints: []SpreadConstraint{soft}, count: new(7), want: []string{"a1", "a2", "a3", "b4", "b5", "c6", "x0"}},
		"a preference, and less": {reason: "zones come before scores", constraints: []SpreadConstraint{soft}, count: new(3), want: []string{"a1", "b4", "c6"}},
		"two constraints":        {reason: "halves are even, and so are zones", constraints: []SpreadConstraint{zones, halves}, count: new(2), want: []string{"a1", "c6"}},
		"all":                    {reason: "as many as the constraint lets", constraints: []SpreadConstraint{zones}, want: []string{"a1", "a2", "b4", "b5", "c6"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec := RequestSpec{Spread: tc.constraints, Count: tc.count, Scorers: []WeightedScorer{{Scorer: Balance{}, Weight: 1}}}
			if name == "a preference" || name == "two constraints" {
				spec.Scorers = nil
			}
			result := ScheduleClusters(fleet, compiled(t, spec), nil, noon)
			if !slices.Equal(result.Targets, tc.want) {
				t.Errorf("%s: got %v, want %v", tc.reason, result.Targets, tc.want)
			}
			if v, _ := result.VerdictForCluster("a3"); tc.barred != "" && v.Reason != tc.barred {
				t.Errorf("a3: %q, want %q", v.Reason, tc.barred)
			}
			if v, _ := result.VerdictForCluster("x0"); tc.barred != "" && v.Reason != "it has no label zone" {
				t.Errorf("x0: %q, want that it has no zone", v.Reason)
			}
		})
	}
}
