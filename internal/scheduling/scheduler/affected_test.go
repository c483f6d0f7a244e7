// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

func TestOnlyRequestsThatCareAreAffected(t *testing.T) {
	cluster := func(change func(*view.Cluster)) *view.Cluster {
		c := &view.Cluster{
			Name: "c", Labels: map[string]string{"env": "prod", "zone": "a"},
			Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")},
		}
		change(c)
		return c
	}
	same := func(*view.Cluster) {}
	heat := view.ScoreName{Resource: "demo", Score: "heat"}
	prod := RequestSpec{Predicates: []Predicate{{Labels: selects("env", "prod")}}}
	few := RequestSpec{Count: new(3), Scorers: []WeightedScorer{{Scorer: MostAllocatable{Resource: corev1.ResourceCPU}, Weight: 1}, {Scorer: AddOn{heat}, Weight: 1}, {Scorer: Balance{}, Weight: 1}}}
	text := RequestSpec{Predicates: []Predicate{{Path: field.NewPath("p"), Expressions: []string{`managedCluster.metadata.labels["env"] == "prod"`}}}}
	labelled := func(with map[string]string) *view.Cluster {
		return new(view.FromCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: with}}, nil))
	}
	zones := RequestSpec{Spread: []SpreadConstraint{{Key: "zone", MaxSkew: 1}}}
	cases := map[string]struct {
		spec   RequestSpec
		before *view.Cluster
		after  *view.Cluster
		chosen bool
		want   bool
	}{
		"it comes":       {spec: prod, after: cluster(same), want: true},
		"it goes":        {spec: prod, before: cluster(same), chosen: true, want: true},
		"another comes":  {spec: prod, after: cluster(func(c *view.Cluster) { c.Labels = nil })},
		"it matches now": {spec: prod, before: cluster(func(c *view.Cluster) { c.Labels = nil }), after: cluster(same), want: true},
		"another label":  {spec: prod, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Labels["x"] = "y" })},
		"a heartbeat":    {spec: few, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Version = "v1.36.0" })},
		"a taint":        {spec: prod, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Taints = []view.Taint{{Key: "x", Effect: view.NoSelect}} }), want: true},
		"a taint that is tolerated for a while": {
			spec: RequestSpec{Tolerations: []Toleration{{Operator: Exists, For: new(time.Minute)}}}, before: cluster(same),
			after: cluster(func(c *view.Cluster) { c.Taints = []view.Taint{{Key: "x", Effect: view.NoSelect, Since: noon}} }), chosen: true, want: true,
		},
		"a taint for newcomers":           {spec: prod, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Taints = []view.Taint{{Key: "x", Effect: view.NoSelectIfNew}} }), chosen: true},
		"a preference, and all are taken": {spec: prod, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Taints = []view.Taint{{Key: "x", Effect: view.PreferNoSelect}} })},
		"a preference":                    {spec: few, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Taints = []view.Taint{{Key: "x", Effect: view.PreferNoSelect}} }), want: true},
		"more room":                       {spec: few, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Allocatable = nil }), want: true},
		"more room, and nobody asks":      {spec: prod, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Allocatable = nil })},
		"a score":                         {spec: few, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Scores = map[view.ScoreName]view.Score{heat: {Value: 3}} }), want: true},
		"a score, and the order counts": {
			spec:   RequestSpec{Scorers: few.Scorers, Ranked: true},
			before: cluster(same), after: cluster(func(c *view.Cluster) { c.Scores = map[view.ScoreName]view.Score{heat: {Value: 3}} }), want: true,
		},
		"an expression fails no longer": {spec: text, before: labelled(nil), after: labelled(map[string]string{"env": "test"}), want: true},
		"an expression is still false":  {spec: text, before: labelled(map[string]string{"env": "none"}), after: labelled(map[string]string{"env": "test"})},
		"a decision":                    {spec: few, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Decisions = 7 })},
		"another zone":                  {spec: zones, before: cluster(same), after: cluster(func(c *view.Cluster) { c.Labels["zone"] = "b" }), want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := compiled(t, tc.spec).AffectedByChange(tc.before, tc.after, tc.chosen, noon); got != tc.want {
				t.Errorf("affected: got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestWhoLacksClustersReconsiders(t *testing.T) {
	taint := []view.Taint{{Key: "x", Effect: view.NoSelect}}
	request := compiled(t, RequestSpec{
		Sets:       []ClusterSet{{Clusters: labels.SelectorFromSet(labels.Set{"set": "s"})}},
		Predicates: []Predicate{{Labels: selects("env", "prod")}},
	})
	cases := map[string]struct {
		before, after *view.Cluster
		want          bool
	}{
		"it joins the set":            {before: &view.Cluster{}, after: &view.Cluster{Labels: map[string]string{"set": "s"}}, want: true},
		"it comes, and is in no set":  {after: &view.Cluster{}},
		"it comes, and is in the set": {after: &view.Cluster{Labels: map[string]string{"set": "s"}}, want: true},
		"another label":               {before: &view.Cluster{Labels: map[string]string{"set": "s"}}, after: &view.Cluster{Labels: map[string]string{"set": "s", "env": "test"}}},
		"another reason": {
			before: &view.Cluster{Labels: map[string]string{"set": "s"}},
			after:  &view.Cluster{Labels: map[string]string{"set": "s", "env": "prod"}, Taints: taint}, want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := request.Reconsiders(tc.before, tc.after, false, noon); got != tc.want {
				t.Errorf("reconsiders: got %t, want %t", got, tc.want)
			}
			if request.AffectedByChange(tc.before, tc.after, false, noon) {
				t.Error("it changes what is chosen")
			}
		})
	}
}

// TestWhoIsNotAffectedChoosesTheSame changes clusters by chance. A failure names
// the seed.
func TestWhoIsNotAffectedChoosesTheSame(t *testing.T) {
	spared := 0
	for seed := range uint64(2000) {
		chance := byChance{rand.New(rand.NewPCG(seed, 5))}
		clusters, spec := chance.clusters(), chance.spec()
		if len(clusters) == 0 {
			continue
		}
		request := compiled(t, spec)
		first := ScheduleClusters(view.NewFleet(clusters...), request, nil, noon)
		i := chance.IntN(len(clusters))
		before, changed := clusters[i], clusters[i]
		changed.Labels = map[string]string{"env": chance.one("prod", "test"), "zone": chance.one("a", "b", "c"), "more": "x"}
		if chance.IntN(3) == 0 {
			changed.Taints = []view.Taint{{Key: "gpu", Since: noon, Effect: view.Effect(chance.one(string(view.NoSelect), string(view.PreferNoSelect)))}}
		}
		changed.AsksToJoin = before.AsksToJoin && chance.IntN(2) == 0
		if request.AffectedByChange(&before, &changed, slices.Contains(first.Targets, before.Name), noon) {
			continue
		}
		spared++
		unchanged := ScheduleClusters(view.NewFleet(clusters...), request, first.Targets, noon)
		clusters[i] = changed
		if again := ScheduleClusters(view.NewFleet(clusters...), request, first.Targets, noon); !slices.Equal(unchanged.Targets, again.Targets) {
			t.Fatalf("seed %d: %s is said not to matter, and the choice goes from %v to %v", seed, before.Name, unchanged.Targets, again.Targets)
		}
	}
	if spared < 100 {
		t.Errorf("only %d of the changes did not matter: this says little", spared)
	}
}

// TestWhatCostsTooMuchToKnowAffects has an event of a cluster of which a request
// asks more than may be found out for an event.
func TestWhatCostsTooMuchToKnowAffects(t *testing.T) {
	c := &view.Cluster{Name: "c"}
	for count, want := range map[int]bool{1: false, 3: true} {
		request := compiled(t, RequestSpec{Predicates: []Predicate{{Path: field.NewPath("p"), Expressions: slices.Repeat([]string{costly}, count)}}})
		if got := request.AffectedByChange(c, c, false, noon); got != want {
			t.Errorf("%d costly expressions: affected is %t, want %t", count, got, want)
		}
	}
}

// TestALabelFlipAffectsFew counts who is affected by one label of one cluster.
func TestALabelFlipAffectsFew(t *testing.T) {
	before := &view.Cluster{Name: "c", Labels: map[string]string{"team": "none"}}
	after := &view.Cluster{Name: "c", Labels: map[string]string{"team": "team-007"}}
	affected := 0
	for i := range 1000 {
		spec := RequestSpec{Predicates: []Predicate{{Labels: selects("team", fmt.Sprintf("team-%03d", i%100))}}, Count: new(10)}
		if compiled(t, spec).AffectedByChange(before, after, false, noon) {
			affected++
		}
	}
	if affected != 10 {
		t.Errorf("%d of 1,000 requests are affected, want the 10 that select the label", affected)
	}
}
