// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func selects(pairs ...string) metav1.LabelSelector {
	selector := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		selector.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return selector
}

func compiled(t testing.TB, spec RequestSpec) ClusterRequest {
	t.Helper()
	request, problems := CompileRequest(spec)
	if len(problems) > 0 {
		t.Fatalf("compiling: %v", problems.ToAggregate())
	}
	return request
}

func TestFilters(t *testing.T) {
	minute := time.Minute
	gpu := view.Taint{Key: "gpu", Value: "only", Effect: view.NoSelect, Since: noon.Add(-30 * time.Second)}
	newcomers := view.Taint{Key: "full", Effect: view.NoSelectIfNew}
	odd := view.Taint{Key: "odd", Effect: view.PreferNoSelect}
	cases := map[string]struct {
		spec     RequestSpec
		cluster  view.Cluster
		previous []string
		want     string
		after    time.Time
	}{
		"nothing is asked for":       {want: "chosen"},
		"a cluster that is deleted":  {cluster: view.Cluster{Deleting: true}, want: "it is being deleted"},
		"no set":                     {spec: RequestSpec{Sets: []ClusterSet{}}, want: "it is in none of the cluster sets"},
		"a set that it is not in":    {spec: RequestSpec{Sets: []ClusterSet{{Name: "s", Clusters: labels.SelectorFromSet(labels.Set{"set": "s"})}}}, want: "it is in none of the cluster sets"},
		"a set that it is in":        {spec: RequestSpec{Sets: []ClusterSet{{Name: "s", Clusters: labels.SelectorFromSet(labels.Set{"set": "s"})}}}, cluster: view.Cluster{Labels: map[string]string{"set": "s"}}, want: "chosen"},
		"labels that it has":         {spec: RequestSpec{Predicates: []Predicate{{Labels: selects("env", "prod")}}}, cluster: view.Cluster{Labels: map[string]string{"env": "prod"}}, want: "chosen"},
		"labels that it has not":     {spec: RequestSpec{Predicates: []Predicate{{Labels: selects("env", "prod")}}}, cluster: view.Cluster{Labels: map[string]string{"env": "test"}}, want: `its labels do not match "env=prod"`},
		"claims that it makes":       {spec: RequestSpec{Predicates: []Predicate{{Claims: selects("cloud", "own")}}}, cluster: view.Cluster{Claims: map[string]string{"cloud": "own"}}, want: "chosen"},
		"claims that it does not":    {spec: RequestSpec{Predicates: []Predicate{{Claims: selects("cloud", "own")}}}, want: `its claims do not match "cloud=own"`},
		"labels and claims are both": {spec: RequestSpec{Predicates: []Predicate{{Labels: selects("env", "prod"), Claims: selects("cloud", "own")}}}, cluster: view.Cluster{Labels: map[string]string{"env": "prod"}}, want: `its claims do not match "cloud=own"`},
		"one predicate of two":       {spec: RequestSpec{Predicates: []Predicate{{Labels: selects("env", "prod")}, {Claims: selects("cloud", "own")}}}, cluster: view.Cluster{Claims: map[string]string{"cloud": "own"}}, want: "chosen"},
		"no predicate of two":        {spec: RequestSpec{Predicates: []Predicate{{Labels: selects("env", "prod")}, {Claims: selects("cloud", "own")}}}, want: "it meets none of 2 predicates"},
		"a taint":                    {cluster: view.Cluster{Taints: []view.Taint{gpu}}, want: "taint gpu=only:NoSelect is not tolerated"},
		"a taint that moves away":    {cluster: view.Cluster{Taints: []view.Taint{gpu}}, previous: []string{"c"}, want: "taint gpu=only:NoSelect is not tolerated"},
		"a taint that is tolerated":  {spec: RequestSpec{Tolerations: []Toleration{{Key: "gpu", Value: "only"}}}, cluster: view.Cluster{Taints: []view.Taint{gpu}}, want: "chosen"},
		"another value":              {spec: RequestSpec{Tolerations: []Toleration{{Key: "gpu", Value: "some", Operator: Equal}}}, cluster: view.Cluster{Taints: []view.Taint{gpu}}, want: "taint gpu=only:NoSelect is not tolerated"},
		"another effect":             {spec: RequestSpec{Tolerations: []Toleration{{Key: "gpu", Operator: Exists, Effect: view.NoSelectIfNew}}}, cluster: view.Cluster{Taints: []view.Taint{gpu}}, want: "taint gpu=only:NoSelect is not tolerated"},
		"everything is tolerated":    {spec: RequestSpec{Tolerations: []Toleration{{Operator: Exists}}}, cluster: view.Cluster{Taints: []view.Taint{gpu, newcomers}}, want: "chosen"},
		"for another half minute":    {spec: RequestSpec{Tolerations: []Toleration{{Key: "gpu", Operator: Exists, For: &minute}}}, cluster: view.Cluster{Taints: []view.Taint{gpu}}, want: "chosen", after: noon.Add(30 * time.Second)},
		"not any longer": {
			spec: RequestSpec{Tolerations: []Toleration{{Key: "gpu", Operator: Exists, For: new(10 * time.Second)}}}, cluster: view.Cluster{Taints: []view.Taint{gpu}},
			want: "taint gpu=only:NoSelect is not tolerated",
		},
		"the longest toleration counts": {
			spec:    RequestSpec{Tolerations: []Toleration{{Key: "gpu", Operator: Exists, For: new(10 * time.Second)}, {Key: "gpu", Operator: Exists, For: &minute}}},
			cluster: view.Cluster{Taints: []view.Taint{gpu}}, want: "chosen", after: noon.Add(30 * time.Second),
		},
		"it only asks to join": {
			spec:    RequestSpec{Tolerations: []Toleration{{Operator: Exists}}},
			cluster: view.Cluster{AsksToJoin: true, Taints: []view.Taint{gpu}}, previous: []string{"c"}, want: "it waits for acceptance, which no toleration replaces",
		},
		"it only asks to join, and its taint is not tolerated": {cluster: view.Cluster{AsksToJoin: true, Taints: []view.Taint{gpu}}, want: "taint gpu=only:NoSelect is not tolerated"},
		"a taint for newcomers":                                {cluster: view.Cluster{Taints: []view.Taint{newcomers}}, want: "taint full:NoSelectIfNew is not tolerated"},
		"a taint for newcomers, not a new":                     {cluster: view.Cluster{Taints: []view.Taint{newcomers}}, previous: []string{"c"}, want: "chosen"},
		"a taint that is a preference":                         {cluster: view.Cluster{Taints: []view.Taint{odd}}, want: "chosen"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.cluster.Name = "c"
			result := ScheduleClusters(view.NewFleet(tc.cluster), compiled(t, tc.spec), tc.previous, noon)
			got, _ := result.VerdictForCluster("c")
			if got.Reason != tc.want || got.Chosen != (tc.want == "chosen") {
				t.Errorf("the verdict is %+v, want %q", got, tc.want)
			}
			if !result.After.Equal(tc.after) {
				t.Errorf("it is to be looked at again at %s, want %s", result.After, tc.after)
			}
		})
	}
}

func TestScorers(t *testing.T) {
	cpu := func(cores string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores)}
	}
	score := view.ScoreName{Resource: "demo", Score: "heat"}
	fleet := view.NewFleet(
		view.Cluster{Name: "a", Allocatable: cpu("2"), Decisions: 4, Scores: map[view.ScoreName]view.Score{score: {Value: 70}}},
		view.Cluster{Name: "b", Allocatable: cpu("6"), Decisions: 2, Scores: map[view.ScoreName]view.Score{score: {Value: 30, Until: noon.Add(time.Hour)}}},
		view.Cluster{Name: "c", Decisions: 1, Scores: map[view.ScoreName]view.Score{score: {Value: 90, Until: noon}}},
		view.Cluster{Name: "d", Allocatable: cpu("10"), Taints: []view.Taint{{Key: "odd", Effect: view.PreferNoSelect}}},
	)
	most := MostAllocatable{As: "ResourceAllocatableCPU", Resource: corev1.ResourceCPU}
	cases := map[string]struct {
		reason  string
		scorers []WeightedScorer
		want    []int64 // of a to d
		first   string
		after   time.Time
	}{
		"none":           {reason: "a taint that prefers others counts even so, and names decide the rest", want: []int64{0, 0, 0, -100}, first: "a"},
		"steady":         {reason: "c was chosen before", scorers: []WeightedScorer{{Scorer: Steady{}, Weight: 1}}, want: []int64{0, 0, 100, -100}, first: "c"},
		"balance":        {reason: "the decision of this request itself does not count", scorers: []WeightedScorer{{Scorer: Balance{}, Weight: 1}}, want: []int64{-100, 0, 100, 0}, first: "c"},
		"allocatable":    {reason: "who does not report it has score 0", scorers: []WeightedScorer{{Scorer: most, Weight: 1}}, want: []int64{-100, 0, 0, 0}, first: "c"},
		"the least":      {reason: "a negative weight turns the order around", scorers: []WeightedScorer{{Scorer: most, Weight: -1}}, want: []int64{100, 0, 0, -200}, first: "a"},
		"add-on":         {reason: "an expired score is 0, as one that never came", scorers: []WeightedScorer{{Scorer: AddOn{score}, Weight: 2}}, want: []int64{140, 60, 0, -100}, first: "a", after: noon.Add(time.Hour)},
		"without weight": {reason: "it is not asked", scorers: []WeightedScorer{{Scorer: AddOn{score}}}, want: []int64{0, 0, 0, -100}, first: "a"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			previous := []string{"c"}
			if name == "none" || name == "without weight" {
				previous = nil
			}
			result := ScheduleClusters(fleet, compiled(t, RequestSpec{Scorers: tc.scorers, Count: new(1)}), previous, noon)
			var got []int64
			for v := range result.ClusterVerdicts() {
				got = append(got, v.Score)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: scores (-want +got):\n%s", tc.reason, diff)
			}
			if !slices.Equal(result.Targets, []string{tc.first}) {
				t.Errorf("%s: chosen is %v, want %s", tc.reason, result.Targets, tc.first)
			}
			if !result.After.Equal(tc.after) {
				t.Errorf("it is to be looked at again at %s, want %s", result.After, tc.after)
			}
		})
	}
}

// TestWhoAsksToJoinTakesNothingAway has somebody ask to join with clusters that nobody has anything in, where
// a request tolerates clusters whose agents are silent: they rank before those that are busiest.
func TestWhoAsksToJoinTakesNothingAway(t *testing.T) {
	silent := []view.Taint{{Key: "unreachable", Effect: view.NoSelect}}
	spec := RequestSpec{
		Tolerations: []Toleration{{Key: "unreachable", Operator: Exists}}, Count: new(1),
		Scorers: []WeightedScorer{{Scorer: Balance{}, Weight: 1}, {Scorer: Steady{}, Weight: 1}},
	}
	busy := view.Cluster{Name: "busy", Taints: silent, Decisions: 9}
	for asks, want := range map[bool]string{true: "busy", false: "asks"} {
		fleet := view.NewFleet(busy, view.Cluster{Name: "asks", Taints: silent, AsksToJoin: asks})
		result := ScheduleClusters(fleet, compiled(t, spec), []string{"busy"}, noon)
		if diff := cmp.Diff([]string{want}, result.Targets); diff != "" {
			t.Errorf("a cluster that only asks to join: %t (-want +got):\n%s", asks, diff)
		}
	}
}

// TestBalanceComparesWithTheWholeFleet has a cluster that may not be chosen and
// is the one that most others have.
func TestBalanceComparesWithTheWholeFleet(t *testing.T) {
	prod := map[string]string{"env": "prod"}
	fleet := view.NewFleet(view.Cluster{Name: "a", Labels: prod, Decisions: 1}, view.Cluster{Name: "b", Labels: prod}, view.Cluster{Name: "c", Decisions: 3})
	spec := RequestSpec{Predicates: []Predicate{{Labels: selects("env", "prod")}}, Scorers: []WeightedScorer{{Scorer: Balance{}, Weight: 1}}}
	result := ScheduleClusters(fleet, compiled(t, spec), nil, noon)
	for cluster, want := range map[string]int64{"a": 32, "b": 100} { // a third of 100 and -100, rounded before it is doubled
		if got := result.TotalScore(cluster); got != want {
			t.Errorf("the score of %s is %d, want %d", cluster, got, want)
		}
	}
}

func TestVerdictsAreSummedUp(t *testing.T) {
	gpu := []view.Taint{{Key: "gpu", Value: "only", Effect: view.NoSelect}}
	fleet := view.NewFleet(
		view.Cluster{Name: "a", Labels: map[string]string{"env": "prod"}},
		view.Cluster{Name: "b", Labels: map[string]string{"env": "prod"}},
		view.Cluster{Name: "c", Labels: map[string]string{"env": "prod"}, Taints: gpu},
		view.Cluster{Name: "d", Labels: map[string]string{"env": "prod"}, Taints: gpu},
		view.Cluster{Name: "e"},
	)
	spec := RequestSpec{Predicates: []Predicate{{Labels: selects("env", "prod")}}, Count: new(1), Scorers: []WeightedScorer{{Scorer: Steady{}, Weight: 3}}}
	result := ScheduleClusters(fleet, compiled(t, spec), []string{"b"}, noon)
	want := []ReasonCount{
		{"taint gpu=only:NoSelect is not tolerated", 2}, {`its labels do not match "env=prod"`, 1}, {"others rank higher, and 1 were wanted", 1},
	}
	if diff := cmp.Diff(want, result.RefusalCounts()); diff != "" {
		t.Errorf("the refused (-want +got):\n%s", diff)
	}
	b, _ := result.VerdictForCluster("b")
	wantB := ClusterVerdict{Cluster: "b", Chosen: true, Reason: "chosen", Rank: 1, Score: 300, Scores: []NamedScore{{"Steady", 3, 100}}}
	if diff := cmp.Diff(wantB, b); diff != "" {
		t.Errorf("the verdict on b (-want +got):\n%s", diff)
	}
	if _, found := result.VerdictForCluster("nobody"); found {
		t.Error("there is a verdict on a cluster that is not in the fleet")
	}
	if result.MissingCount() != 0 || result.EligibleCount() != 2 {
		t.Errorf("missing are %d and eligible %d, want 0 and 2", result.MissingCount(), result.EligibleCount())
	}
}

func TestMistakesNameTheirField(t *testing.T) {
	at := field.NewPath("spec", "x").Index(0)
	cases := map[string]struct {
		spec RequestSpec
		want string
	}{
		"a selector":      {spec: RequestSpec{Predicates: []Predicate{{Path: at, Labels: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}}}}, want: "spec.x[0].labelSelector"},
		"an operator":     {spec: RequestSpec{Tolerations: []Toleration{{Path: at, Key: "a", Operator: "Like"}}}, want: "spec.x[0].operator"},
		"a key":           {spec: RequestSpec{Tolerations: []Toleration{{Path: at}}}, want: "spec.x[0].key"},
		"a value":         {spec: RequestSpec{Tolerations: []Toleration{{Path: at, Operator: Exists, Value: "v"}}}, want: "spec.x[0].value"},
		"a weight":        {spec: RequestSpec{Scorers: []WeightedScorer{{Path: at, Scorer: Steady{}, Weight: 11}}}, want: "spec.x[0].weight"},
		"a topology":      {spec: RequestSpec{Spread: []SpreadConstraint{{Path: at, MaxSkew: 1}}}, want: "spec.x[0].topologyKey"},
		"a skew":          {spec: RequestSpec{Spread: []SpreadConstraint{{Path: at, Key: "zone"}}}, want: "spec.x[0].maxSkew"},
		"too many":        {spec: RequestSpec{Spread: slices.Repeat([]SpreadConstraint{{Path: at, Key: "zone", MaxSkew: 1}}, SpreadConstraintsMax+1)}, want: "spec.x[0]"},
		"a negative size": {spec: RequestSpec{Count: new(-1)}, want: "numberOfClusters"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := CompileRequest(tc.spec)
			if len(problems) != 1 || problems[0].Field != tc.want {
				t.Errorf("the problems are %v, want one of %s", problems, tc.want)
			}
		})
	}
}

func TestChecksTellAllThatIsAgainstACluster(t *testing.T) {
	gpu, full := view.Taint{Key: "gpu", Effect: view.NoSelect}, view.Taint{Key: "full", Effect: view.NoSelectIfNew}
	at := field.NewPath("spec", "predicates").Index(0)
	request := compiled(t, RequestSpec{
		Sets: []ClusterSet{},
		Predicates: []Predicate{
			{Path: at, Labels: selects("env", "prod")},
			{Path: at, Expressions: []string{`managedCluster.metadata.name == "b"`}},
			{Path: at, Expressions: []string{`managedCluster.status.nonsense == "b"`}},
		},
	})
	cluster := view.FromCluster(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, nil)
	cluster.Taints = []view.Taint{gpu, full}
	cluster.AsksToJoin = true
	result := ScheduleClusters(view.NewFleet(cluster), request, nil, noon)
	want := []FilterCheck{
		{Filter: "deletion"},
		{Filter: "clusterSets", Objections: []string{"it is in none of the cluster sets"}},
		{Filter: "predicates", Objections: []string{
			`predicate 0: its labels do not match "env=prod"`,
			`predicate 1: CEL expression "managedCluster.metadata.name == \"b\"" is not true for it`,
			`predicate 2: CEL expression "managedCluster.status.nonsense == \"b\"" fails: cluster a: the object has no field nonsense; test for it with has()`,
		}},
		{Filter: "taints", Objections: []string{"taint gpu:NoSelect is not tolerated", "taint full:NoSelectIfNew is not tolerated", "it waits for acceptance, which no toleration replaces"}},
	}
	if diff := cmp.Diff(want, result.FilterChecks("a")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if v, _ := result.VerdictForCluster("a"); v.RefusedBy != "clusterSets" || result.FilterChecks("b") != nil {
		t.Errorf("the verdict is %+v, and there are checks of a cluster that is not there: %v", v, result.FilterChecks("b"))
	}
}
