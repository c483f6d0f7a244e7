// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

func TestPrioritizers(t *testing.T) {
	builtIn := func(name string, weight int32) clusterv1beta1.PrioritizerConfig {
		return clusterv1beta1.PrioritizerConfig{Weight: weight, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{Type: clusterv1beta1.ScoreCoordinateTypeBuiltIn, BuiltIn: name}}
	}
	heat := clusterv1beta1.PrioritizerConfig{Weight: 2, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
		Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: "demo", ScoreName: "heat"},
	}}
	cases := map[string]struct {
		reason string
		policy clusterv1beta1.PrioritizerPolicy
		want   map[string]int
	}{
		"nothing":                 {reason: "the defaults", want: map[string]int{"Balance": 1, "Steady": 1}},
		"additive":                {reason: "the defaults, and what is configured", policy: clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeAdditive, Configurations: []clusterv1beta1.PrioritizerConfig{heat}}, want: map[string]int{"Balance": 1, "Steady": 1, "AddOn/demo/heat": 2}},
		"another weight":          {reason: "the default gives way", policy: clusterv1beta1.PrioritizerPolicy{Configurations: []clusterv1beta1.PrioritizerConfig{builtIn("Steady", 3)}}, want: map[string]int{"Balance": 1, "Steady": 3}},
		"exact":                   {reason: "only what is configured", policy: clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: []clusterv1beta1.PrioritizerConfig{builtIn("ResourceAllocatableCPU", -1)}}, want: map[string]int{"ResourceAllocatableCPU": -1}},
		"exact, but nothing":      {reason: "names decide", policy: clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeExact}, want: map[string]int{}},
		"the default, turned off": {reason: "weight 0 is in the list, and does not count", policy: clusterv1beta1.PrioritizerPolicy{Configurations: []clusterv1beta1.PrioritizerConfig{builtIn("Balance", 0)}}, want: map[string]int{"Balance": 0, "Steady": 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, problems := parseSpec(&clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{PrioritizerPolicy: tc.policy}})
			got := map[string]int{}
			for _, s := range w.spec.Scorers {
				got[s.Scorer.Name()] = s.Weight
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || len(problems) > 0 {
				t.Errorf("%s: %v (-want +got):\n%s", tc.reason, problems, diff)
			}
		})
	}
}

func TestMistakesNameTheirField(t *testing.T) {
	cases := map[string]clusterv1beta1.PlacementSpec{
		"spec.numberOfClusters":       {NumberOfClusters: new(int32(-1))},
		"spec.prioritizerPolicy.mode": {PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Mode: "Mostly"}},
		"spec.prioritizerPolicy.configurations[0].scoreCoordinate": {PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
			Configurations: []clusterv1beta1.PrioritizerConfig{{}},
		}},
		"spec.prioritizerPolicy.configurations[0].scoreCoordinate.builtIn": {PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
			Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{BuiltIn: "Spread"}}},
		}},
		"spec.prioritizerPolicy.configurations[0].scoreCoordinate.addOn": {PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{
			Configurations: []clusterv1beta1.PrioritizerConfig{{ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{Type: "AddOn"}}},
		}},
		"spec.scoreRateLimit": {ScoreRateLimit: "99999999999999h"},
		"spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup": {DecisionStrategy: clusterv1beta1.DecisionStrategy{
			GroupStrategy: clusterv1beta1.GroupStrategy{ClustersPerDecisionGroup: intstr.FromString("some")},
		}},
		"spec.decisionStrategy.groupStrategy.decisionGroups[0].groupClusterSelector.labelSelector": {DecisionStrategy: clusterv1beta1.DecisionStrategy{
			GroupStrategy: clusterv1beta1.GroupStrategy{DecisionGroups: []clusterv1beta1.DecisionGroup{{GroupName: "g", ClusterSelector: clusterv1beta1.GroupClusterSelector{
				LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b c"}},
			}}}},
		}},
	}
	for want, spec := range cases {
		t.Run(want, func(t *testing.T) {
			_, problems := parseSpec(&clusterv1beta1.Placement{Spec: spec})
			if len(problems) != 1 || problems[0].Field != want {
				t.Errorf("the problems are %v, want one of %s", problems, want)
			}
		})
	}
}

func TestANameThatNoLabelCanHaveIsAMistake(t *testing.T) {
	for length, mistakes := range map[int]int{63: 0, 64: 1} {
		_, problems := parseSpec(&clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: strings.Repeat("a", length)}})
		if len(problems) != mistakes || mistakes > 0 && problems[0].Field != "metadata.name" {
			t.Errorf("a name of %d characters: the problems are %v, want %d", length, problems, mistakes)
		}
	}
}

func TestTolerationSecondsDoNotOverflow(t *testing.T) {
	const most = 9_223_372_036 * time.Second // whole seconds in a Duration
	for given, want := range map[int64]time.Duration{
		60: time.Minute, 0: 0, -1: -time.Second, math.MaxInt64: most, math.MinInt64: -most,
	} {
		if got := *secondsToDuration(&given); got != want {
			t.Errorf("%d seconds are %s, want %s", given, got, want)
		}
	}
}

func TestTheScoreRateLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{"": time.Minute, "0s": 0, "90s": 90 * time.Second, "2h": 2 * time.Hour} {
		request, problems := CompilePlacement(&clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{ScoreRateLimit: text}}, nil)
		if request.ScoreRateLimit != want || len(problems) > 0 {
			t.Errorf("%q: got %s, want %s; the problems are %v", text, request.ScoreRateLimit, want, problems)
		}
	}
}

func TestSets(t *testing.T) {
	set := func(name string) scheduler.ClusterSet {
		return scheduler.ClusterSet{Name: name, Clusters: labels.Everything()}
	}
	cases := map[string]struct {
		named  []string
		bound  []scheduler.ClusterSet
		want   []string
		reason string
	}{
		"none is bound":    {reason: clusterv1beta1.PlacementReasonNoManagedClusterSetBindings},
		"all that are":     {bound: []scheduler.ClusterSet{set("a"), set("b")}, want: []string{"a", "b"}},
		"those it names":   {named: []string{"b", "c"}, bound: []scheduler.ClusterSet{set("a"), set("b")}, want: []string{"b"}},
		"it names another": {named: []string{"c"}, bound: []scheduler.ClusterSet{set("a")}, reason: clusterv1beta1.PlacementReasonNoIntersection},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			chosen, reason := eligibleSets(&clusterv1beta1.Placement{Spec: clusterv1beta1.PlacementSpec{ClusterSets: tc.named}}, tc.bound)
			var got []string
			for _, s := range chosen {
				got = append(got, s.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || reason != tc.reason || chosen == nil {
				t.Errorf("sets %v, reason %q, want %v and %q", got, reason, tc.want, tc.reason)
			}
		})
	}
}
