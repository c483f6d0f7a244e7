// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// componentsOf reads parts such as "job:1 task:2*500m": the second with replicas
// that need half a CPU each.
func componentsOf(text string) []workv1alpha2.Component {
	var parts []workv1alpha2.Component
	for word := range strings.FieldsSeq(text) {
		number, cpu, needs := strings.Cut(word, "*")
		target := targetsOf(number)[0]
		part := workv1alpha2.Component{Name: target.Name, Replicas: target.Replicas}
		if needs {
			part.ReplicaRequirements = &workv1alpha2.ComponentReplicaRequirements{
				ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}
		}
		parts = append(parts, part)
	}
	return parts
}

// having returns the clusters that have parts, all the same.
func having(components string, clusters ...string) []workv1alpha2.TargetCluster {
	var targets []workv1alpha2.TargetCluster
	for _, cluster := range clusters {
		targets = append(targets, workv1alpha2.TargetCluster{Name: cluster, Components: PlacementInput{Components: componentsOf(components)}.targetParts()})
	}
	return targets
}

// wholeText is what was decided, such as "a b": those that have all parts as they
// are wanted.
func wholeText(in PlacementInput, decision SchedulingDecision) string {
	var names []string
	for _, target := range decision.Clusters {
		name := target.Name
		if !slices.Equal(target.Components, in.targetParts()) || target.Replicas != 0 {
			name += "?"
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func TestPartsArePlacedTogether(t *testing.T) {
	const flink = "job:1*1 task:2*500m" // 3 pods, 2 CPUs
	for name, test := range map[string]struct {
		placement  string
		clusters   []string
		components string
		previous   []workv1alpha2.TargetCluster
		fresh      bool
		want, says string
	}{
		"a copy for each":                      {placement: "", clusters: []string{"a cpu=0", "b"}, want: "a b"},
		"copies, as many as may be":            {placement: "{spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]}", clusters: []string{"b", "a"}, want: "a"},
		"one that has room for all":            {placement: dynamic, clusters: []string{"a cpu=1", "b cpu=2", "c pods=2"}, want: "b"},
		"the one that has the most room":       {placement: aggregated, clusters: []string{"a cpu=3", "b cpu=8", "c cpu=4"}, want: "b"},
		"who does not say its room has some":   {placement: dynamic, clusters: []string{"a cpu=1", "b"}, want: "b"},
		"together there would be room":         {placement: dynamic, clusters: []string{"a cpu=1", "b cpu=1"}, says: "Unschedulable: no cluster that may be chosen has room for all parts of the object together (job 1, task 2)"},
		"with constraints by region":           {placement: with(dynamic, "spreadConstraints: [{spreadByField: region, maxGroups: 1}, {spreadByField: cluster, maxGroups: 1}]"), clusters: []string{"a region=eu cpu=1", "b region=us cpu=9"}, want: "b"},
		"in two clusters":                      {placement: with(dynamic, "spreadConstraints: [{spreadByField: cluster, minGroups: 2}]"), clusters: []string{"a", "b"}, says: "SchedulerError: the parts of the object are placed together and not divided among clusters, and spreadConstraints want at least 2; lower minGroups to 1, or set replicaSchedulingType Duplicated"},
		"static weights: the greatest":         {placement: weighted("a, b", 1, "c", 5), clusters: []string{"a", "b", "c cpu=0"}, want: "c"},
		"static weights: all weigh the same":   {placement: static, clusters: []string{"b", "a"}, want: "a"},
		"it stays where it is":                 {placement: dynamic, clusters: []string{"a cpu=50", "b cpu=0"}, previous: having(flink, "b"), want: "b"},
		"it stays, with static weights":        {placement: static, clusters: []string{"a", "b"}, previous: having(flink, "b"), want: "b"},
		"it is chosen anew":                    {placement: dynamic, clusters: []string{"a cpu=50", "b cpu=0"}, previous: having(flink, "b"), fresh: true, want: "a"},
		"chosen anew, and no one is better":    {placement: dynamic, clusters: []string{"a cpu=1", "b cpu=0"}, previous: having(flink, "b"), fresh: true, want: "b"},
		"it grows where it is":                 {placement: dynamic, clusters: []string{"a cpu=50", "b cpu=1"}, previous: having("job:1 task:1", "b"), want: "b"},
		"it has outgrown its cluster":          {placement: dynamic, clusters: []string{"a cpu=50", "b cpu=0"}, previous: having("job:1 task:1", "b"), want: "a"},
		"it has outgrown all, and stays":       {placement: dynamic, clusters: []string{"a cpu=1", "b cpu=0"}, previous: having("job:1 task:1", "b"), says: "Unschedulable: no cluster"},
		"it shrinks":                           {placement: dynamic, clusters: []string{"a cpu=50", "b cpu=0"}, previous: having("job:1 task:9", "b"), want: "b"},
		"a copy too many":                      {placement: dynamic, clusters: []string{"a cpu=50", "b cpu=50"}, previous: having(flink, "a", "b"), want: "a"},
		"its cluster may not be chosen":        {placement: with(dynamic, "clusterAffinity: {exclude: [b]}"), clusters: []string{"a", "b"}, previous: having(flink, "b"), want: "a"},
		"parts that need nothing but pods":     {placement: dynamic, components: "x:2 y:2", clusters: []string{"a pods=3", "b pods=4"}, want: "b"},
		"no pods at all":                       {placement: dynamic, components: "x:0 y:0", clusters: []string{"a pods=0"}, want: "a"},
		"one part, of a kind without replicas": {placement: dynamic, components: "x:4", clusters: []string{"a pods=3", "b pods=4"}, want: "b"},
		"what the first have no room for": {
			placement: with(dynamic, "clusterAffinities: [{affinityName: x, clusterNames: [a], overflowAffinities: [{affinityName: y, clusterNames: [b]}]}]"),
			clusters:  []string{"a cpu=1", "b cpu=50", "c cpu=90"}, want: "b",
		},
		"the next group": {
			placement: with(dynamic, "clusterAffinities: [{affinityName: x, clusterNames: [a]}, {affinityName: y, clusterNames: [b]}]"),
			clusters:  []string{"a cpu=1", "b cpu=50"}, want: "b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if test.components == "" {
				test.components = flink
			}
			in := PlacementInput{
				Placement: placementOf(t, test.placement), Resource: deployment, Components: componentsOf(test.components), Previous: test.previous, Fresh: test.fresh,
			}
			decision := DecidePlacement(fleetOf(test.clusters...), in, noon)
			if test.says != "" {
				if said := decision.Reason + ": " + decision.Message; decision.Scheduled || !strings.HasPrefix(said, test.says) || textOf(decision.Clusters) != textOf(test.previous) {
					t.Errorf("it says %s, with %v; want %s, and nothing moved", said, decision.Clusters, test.says)
				}
				return
			}
			if got := wholeText(in, decision); got != test.want || !decision.Scheduled {
				t.Errorf("it is placed on %q (%s), want %q", got, decision.Message, test.want)
			}
		})
	}
}

func TestVerdictsOnPartsThatArePlacedTogether(t *testing.T) {
	for name, test := range map[string]struct {
		placement string
		clusters  []string
		want      string
	}{
		"no room":   {dynamic, []string{"a cpu=9", "c cpu=1"}, "replicaScheduling: it has no room for all parts together (job 1, task 2) (room 0)"},
		"less room": {dynamic, []string{"a cpu=9", "c cpu=5"}, "replicaScheduling: another cluster has all parts: they are placed together (room 2)"},
		"no rule":   {weighted("a", 1), []string{"a", "c"}, "replicaScheduling: no rule of staticWeightList is for it (room -1)"},
		"a weight":  {weighted("a", 2, "c", 1), []string{"a", "c"}, "replicaScheduling: another cluster has all parts: they are placed together (room -1)"},
		"copies":    {"{spreadConstraints: [{spreadByField: cluster, maxGroups: 1}]}", []string{"a", "c"}, "spreadConstraints: others rank higher, and the spread constraints allow no more clusters (room -1)"},
		"chosen":    {dynamic, []string{"a cpu=1", "c cpu=4"}, ": chosen (room 2)"},
	} {
		in := PlacementInput{Placement: placementOf(t, test.placement), Resource: deployment, Components: componentsOf("job:1*1 task:2*500m")}
		v, _ := DecidePlacement(fleetOf(test.clusters...), in, noon).VerdictForCluster("c")
		if got := fmt.Sprintf("%s: %s (room %d)", v.RefusedBy, v.Reason, v.Room); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestWhenPartsAreDecidedAnew(t *testing.T) {
	fleet := fleetOf("a", "b")
	for name, test := range map[string]struct {
		placement string
		previous  []workv1alpha2.TargetCluster
		want      string
	}{
		"they are as they are wanted": {dynamic, having("x:1 y:2", "a"), ""},
		"one has more replicas":       {dynamic, having("x:1 y:1", "a"), "components: no cluster has all parts as desired"},
		"there is another one":        {dynamic, having("x:1", "a"), "components: no cluster has all parts as desired"},
		"two clusters have them":      {dynamic, having("x:1 y:2", "a", "b"), "components: no cluster has all parts as desired"},
		"each has a copy":             {"{}", having("x:1 y:2", "a"), "each cluster that may be chosen gets a copy"},
		"its cluster is gone":         {dynamic, having("x:1 y:2", "z"), "cluster z is being deleted, or gone"},
	} {
		state := SchedulingState{AppliedPlacement: "{}", PlacementInput: PlacementInput{Placement: placementOf(t, test.placement), Components: componentsOf("x:1 y:2"), Previous: test.previous}}
		if test.placement == dynamic {
			state.AppliedPlacement = `{"replicaScheduling":{"replicaSchedulingType":"Divided","replicaDivisionPreference":"Weighted","weightPreference":{"dynamicWeight":"AvailableReplicas"}}}`
		}
		if _, why := NeedsScheduling(fleet, state); why != test.want {
			t.Errorf("%s: %q, want %q", name, why, test.want)
		}
	}
}

// What waits for room is told of a cluster that has more; what is placed is not.
func TestWhoCaresAboutRoomForAllParts(t *testing.T) {
	compiled, _ := CompilePlacement(placementOf(t, dynamic))
	before, after := fleetOf("a cpu=1").ClusterAt(0), fleetOf("a cpu=9").ClusterAt(0)
	in := PlacementInput{Resource: deployment, Components: componentsOf("job:1*1 task:2*500m")}
	if !compiled.AffectedByChange(before, after, in.ChangeSensitivity(), false, noon) {
		t.Error("what has no cluster yet does not hear of room")
	}
	in.Previous = having("job:1 task:2", "b")
	if compiled.AffectedByChange(before, after, in.ChangeSensitivity(), false, noon) || compiled.AffectedByChange(nil, after, in.ChangeSensitivity(), false, noon) {
		t.Error("what is placed is decided anew as another cluster comes or has more room")
	}
	if !compiled.AffectedByChange(after, nil, in.ChangeSensitivity(), true, noon) {
		t.Error("the loss of its cluster is nothing to it")
	}
}

// TestPartsKeepTheirPromises decides by chance: all parts are in one cluster that
// may have them and has room, or nowhere; what was decided stays.
func TestPartsKeepTheirPromises(t *testing.T) {
	scheduled := 0
	for seed := range uint64(2000) {
		chance := byChance{rand.New(rand.NewPCG(seed, 12))}
		clusters := chance.clusters()
		in := chance.input(t, clusters)
		in.Workload, in.Replicas, in.Previous = false, 0, nil
		in.Components = componentsOf(fmt.Sprintf("x:%d y:%d", chance.IntN(5), chance.IntN(5)))
		if len(clusters) > 0 && chance.IntN(2) == 0 {
			in.Previous = having(fmt.Sprintf("x:%d y:%d", chance.IntN(5), chance.IntN(5)), strings.Fields(clusters[0])[0])
		}
		fleet := fleetOf(clusters...)
		decision := DecidePlacement(fleet, in, noon)
		if !decision.Scheduled {
			continue
		}
		scheduled++
		checkWhole(t, seed, in, decision)
		again := in
		again.Previous, again.ObservedAffinity, again.Fresh = decision.Clusters, decision.Affinity, false
		newcomer := fleetOf(strings.TrimSuffix(chance.cluster(99), " deleting")).ClusterAt(0)
		more := []view.Cluster{*newcomer}
		for i := range fleet.Len() {
			more = append(more, *fleet.ClusterAt(i))
		}
		compiled, _ := CompilePlacement(in.Placement)
		tiers := decision.Affinity == "two" && !compiled.byRoom() // by weights, who is of an earlier tier takes all
		if next := DecidePlacement(view.NewFleet(more...), again, noon); !isDuplicated(in.Placement) && !tiers && wholeText(in, next) != wholeText(in, decision) {
			t.Fatalf("seed %d: from %v to %v without need (%s)", seed, decision.Clusters, next.Clusters, next.Message)
		}
	}
	if scheduled < 500 {
		t.Errorf("only %d decisions were made", scheduled)
	}
}

func checkWhole(t *testing.T, seed uint64, in PlacementInput, decision SchedulingDecision) {
	t.Helper()
	if !isDuplicated(in.Placement) && len(decision.Clusters) != 1 {
		t.Fatalf("seed %d: the parts are taken apart: %v", seed, decision.Clusters)
	}
	for _, target := range decision.Clusters {
		v, _ := decision.VerdictForCluster(target.Name)
		if !v.Chosen || v.Room == 0 || !slices.Equal(target.Components, in.targetParts()) {
			t.Fatalf("seed %d: %+v for %+v", seed, v, target)
		}
	}
}

// TestTooManyRequestsAreNotCounted has replicas that request more resources than are compared with those of each
// cluster.
func TestTooManyRequestsAreNotCounted(t *testing.T) {
	many := func(count int) corev1.ResourceList {
		list := corev1.ResourceList{}
		for i := range count {
			list[corev1.ResourceName(fmt.Sprintf("example.com/%d", i))] = resource.MustParse("1")
		}
		return list
	}
	parts := func(count, requests int) (all []workv1alpha2.Component) {
		for i := range count {
			all = append(all, workv1alpha2.Component{
				Name: fmt.Sprint(i), Replicas: 1, ReplicaRequirements: &workv1alpha2.ComponentReplicaRequirements{ResourceRequest: many(requests)},
			})
		}
		return all
	}
	for want, in := range map[string]PlacementInput{
		"spec.replicaRequirements.resourceRequest: Too many: 65: must have at most 64 items": {
			Workload: true, Replicas: 1, Requirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: many(65)},
		},
		"spec.components[0].replicaRequirements.resourceRequest: Too many: 65: must have at most 64 items": {Components: parts(2, 65)},
		"spec.components: Too many: 1088: must have at most 1024 items: these are":                         {Components: parts(17, 64)},
		"": {Components: parts(16, 64), Requirements: &workv1alpha2.ReplicaRequirements{ResourceRequest: many(64)}},
	} {
		in.Placement = placementOf(t, dynamic)
		decision := DecidePlacement(fleetOf("a", "b"), in, noon)
		if refused := decision.Reason == workv1alpha2.BindingReasonSchedulerError; refused != (want != "") || refused && !strings.HasPrefix(decision.Message, want) {
			t.Errorf("%s: %s, want %q", decision.Reason, decision.Message, want)
		}
	}
}

// TestClustersThatAreNoneAreNotCounted has a binding name thousands of clusters that do not exist.
func TestClustersThatAreNoneAreNotCounted(t *testing.T) {
	in := PlacementInput{Placement: placementOf(t, dynamic), Resource: deployment, Components: componentsOf("job:1*1 task:2*500m"), Previous: having("job:1 task:1", "a")}
	for i := range 10_000 {
		in.Previous = append(in.Previous, workv1alpha2.TargetCluster{Name: fmt.Sprintf("none-%d", i)})
	}
	compiled, problems := CompilePlacement(in.Placement)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if counted := compiled.CountRoom(fleetOf("a cpu=50", "b cpu=50"), in).counted; len(counted.all) != 2 || len(counted.lacking) != 1 {
		t.Errorf("room is counted in %d clusters, and what %d lack, want 2 and the one of the fleet", len(counted.all), len(counted.lacking))
	}
}
