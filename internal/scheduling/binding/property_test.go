// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// byChance makes fleets and objects by chance.
type byChance struct{ *rand.Rand }

func (c byChance) one(values ...string) string { return values[c.IntN(len(values))] }

func (c byChance) cluster(n int) string {
	text := fmt.Sprintf("c%02d env=%s region=%s zone=%s", n, c.one("prod", "test"), c.one("eu", "us", "asia"), c.one("1", "2", "1,2"))
	if c.IntN(8) > 0 {
		text += fmt.Sprintf(" pods=%d", c.IntN(12))
	}
	return text + c.one("", "", "", "", " taint=NoSelect", " taint=NoSelectIfNew", " taint=PreferNoSelect", " deleting")
}

func (c byChance) placement() string {
	text := c.one("{replicaScheduling: {replicaSchedulingType: Duplicated}}", static, dynamic, aggregated, weighted("c00, c01", 1, "c02, c03, c04", 3))
	if c.IntN(2) == 0 {
		text = with(text, c.one("clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}", "clusterAffinity: {exclude: [c01]}",
			"clusterAffinities: [{affinityName: one, clusterNames: [c01, c02]}, {affinityName: two, overflowAffinities: [{affinityName: three}], labelSelector: {matchLabels: {env: prod}}}]"))
	}
	if c.IntN(2) == 0 {
		text = with(text, c.one("spreadConstraints: [{spreadByField: cluster, minGroups: 2, maxGroups: 3}]",
			"spreadConstraints: [{spreadByField: region, minGroups: 2, maxGroups: 2}, {spreadByField: cluster, maxGroups: 3}]",
			"spreadConstraints: [{spreadByField: region}, {spreadByField: zone, minGroups: 2}, {spreadByField: cluster}]"))
	}
	return text
}

func (c byChance) input(t *testing.T, clusters []string) PlacementInput {
	in := PlacementInput{
		Placement: placementOf(t, c.placement()), Resource: deployment, Workload: c.IntN(6) > 0, Replicas: int32(c.IntN(25)),
		UID: types.UID(c.one("uid-1", "uid-2")), Fresh: c.IntN(6) == 0, ObservedAffinity: c.one("", "one", "two"),
	}
	for _, cluster := range clusters {
		if c.IntN(4) == 0 {
			in.Previous = append(in.Previous, workv1alpha2.TargetCluster{Name: strings.Fields(cluster)[0], Replicas: int32(c.IntN(9))})
		}
	}
	return in
}

func (c byChance) clusters() []string {
	var clusters []string
	for n := range c.IntN(12) {
		clusters = append(clusters, c.cluster(n))
	}
	return clusters
}

// TestDecisionsKeepTheirPromises decides by chance, and asks for what holds
// always. A failure names the seed.
func TestDecisionsKeepTheirPromises(t *testing.T) {
	scheduled := 0
	for seed := range uint64(3000) {
		chance := byChance{rand.New(rand.NewPCG(seed, 6))}
		clusters := chance.clusters()
		in := chance.input(t, clusters)
		decision := DecidePlacement(fleetOf(clusters...), in, noon)

		chance.Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
		previous := slices.Clone(in.Previous)
		chance.Shuffle(len(previous), func(i, j int) { previous[i], previous[j] = previous[j], previous[i] })
		shuffled := in
		shuffled.Previous = previous
		if again := DecidePlacement(fleetOf(clusters...), shuffled, noon); decision.Scheduled && textOf(again.Clusters) != textOf(decision.Clusters) || again.Message != decision.Message {
			t.Fatalf("seed %d: the order matters: %v, %v", seed, decision, again)
		}
		if !decision.Scheduled {
			continue
		}
		scheduled++
		checkPromises(t, seed, in, decision)
	}
	if scheduled < 1000 {
		t.Errorf("only %d decisions were made", scheduled)
	}
}

func checkPromises(t *testing.T, seed uint64, in PlacementInput, decision SchedulingDecision) {
	t.Helper()
	wanted := int64(in.Replicas)
	switch {
	case !in.Workload:
		wanted = 0
	case isDuplicated(in.Placement):
		wanted *= int64(len(decision.Clusters))
	}
	if sum := placedReplicas(decision.Clusters); sum != wanted || len(decision.Clusters) == 0 {
		t.Fatalf("seed %d: %d of %d replicas are placed: %v", seed, sum, wanted, textOf(decision.Clusters))
	}
	chosen := 0
	for v := range decision.ClusterVerdicts() {
		if v.Chosen == (v.RefusedBy != "") || v.Reason == "" {
			t.Fatalf("seed %d: a verdict that is none: %+v", seed, v)
		}
		for _, check := range decision.FilterChecks(v.Cluster) {
			if v.Chosen && len(check.Objections) > 0 {
				t.Fatalf("seed %d: %s is chosen, although %s objects: %v", seed, v.Cluster, check.Filter, check.Objections)
			}
		}
		if v.Chosen {
			chosen++
		}
	}
	if chosen != len(decision.Clusters) {
		t.Fatalf("seed %d: %d are chosen by their verdicts: %v", seed, chosen, textOf(decision.Clusters))
	}
}

// TestNothingMovesWithoutNeed decides again what was decided, and after a cluster
// has come and others have more room.
func TestNothingMovesWithoutNeed(t *testing.T) {
	for seed := range uint64(2000) {
		chance := byChance{rand.New(rand.NewPCG(seed, 7))}
		clusters := chance.clusters()
		in := chance.input(t, clusters)
		in.Fresh = false
		compiled, _ := CompilePlacement(in.Placement)
		before := fleetOf(clusters...)
		decision := compiled.DecideClusters(before, in, noon)
		if !decision.Scheduled {
			continue
		}
		in.Previous, in.ObservedAffinity = decision.Clusters, decision.Affinity
		if again := compiled.DecideClusters(before, in, noon); textOf(again.Clusters) != textOf(decision.Clusters) || !again.Scheduled {
			t.Fatalf("seed %d: from %s to %s without a reason (%s)", seed, textOf(decision.Clusters), textOf(again.Clusters), again.Message)
		}
		newcomer := fleetOf(strings.TrimSuffix(chance.cluster(99), " deleting")).ClusterAt(0)
		checkNewcomer(t, seed, compiled, in, grown{before, newcomer})
	}
}

// grown is a fleet, and a cluster that comes to it.
type grown struct {
	before   view.Fleet
	newcomer *view.Cluster
}

// checkNewcomer makes sure that a new cluster and free capacity move nothing that
// is divided, and that what is duplicated is told of a cluster that it takes.
func checkNewcomer(t *testing.T, seed uint64, c CompiledPlacement, in PlacementInput, g grown) {
	t.Helper()
	clusters := []view.Cluster{*g.newcomer} // and all others, which have much room now
	for i := range g.before.Len() {
		roomier := *g.before.ClusterAt(i)
		roomier.Room = &view.FreeRoom{Free: view.Amounts{"pods": 50_000}}
		clusters = append(clusters, roomier)
	}
	after := view.NewFleet(clusters...)
	for i := range g.before.Len() {
		before := g.before.ClusterAt(i)
		if now, _ := after.ClusterNamed(before.Name); c.AffectedByChange(before, &now, in.ChangeSensitivity(), has(in.Previous, now.Name), noon) {
			t.Fatalf("seed %d: more room affects %s", seed, textOf(in.Previous))
		}
	}
	again := textOf(c.DecideClusters(after, in, noon).Clusters)
	moves := again != textOf(in.Previous)
	switch affected := c.AffectedByChange(nil, g.newcomer, in.ChangeSensitivity(), has(in.Previous, g.newcomer.Name), noon); {
	case c.dividesReplicas(in.ChangeSensitivity()) && affected:
		t.Fatalf("seed %d: a new cluster affects %s", seed, textOf(in.Previous))
	case c.dividesReplicas(in.ChangeSensitivity()) && c.byRoom() && moves, !c.dividesReplicas(in.ChangeSensitivity()) && !affected && moves:
		t.Fatalf("seed %d: a new cluster moves %s to %s", seed, textOf(in.Previous), again)
	}
}

func BenchmarkDecide(b *testing.B) {
	for name, placement := range map[string]string{
		"duplicated": "{clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}}",
		"static":     weighted("c-00001, c-00002, c-00003", 3),
		"dynamic":    with(dynamic, "clusterAffinity: {labelSelector: {matchLabels: {env: prod}}}"),
		"regions":    with(dynamic, "spreadConstraints: [{spreadByField: region, minGroups: 3, maxGroups: 5}, {spreadByField: cluster, maxGroups: 20}]"),
	} {
		for _, size := range []int{100, 10_000} {
			clusters := make([]string, size)
			for i := range clusters {
				clusters[i] = fmt.Sprintf("c-%05d region=r%d cpu=%d env=%s", i, i%40, i%64, []string{"prod", "test"}[i%2])
			}
			fleet := fleetOf(clusters...)
			compiled, _ := CompilePlacement(placementOf(b, placement))
			in := PlacementInput{Resource: deployment, Workload: true, Replicas: 100}
			b.Run(fmt.Sprintf("%s, %d clusters", name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if d := compiled.DecideClusters(fleet, in, noon); !d.Scheduled {
						b.Fatal(d.Message)
					}
				}
			})
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add(`{"replicaScheduling": {"replicaDivisionPreference": "Aggregated"}, "spreadConstraints": [{"spreadByField": "region", "minGroups": 2}]}`, "a:3 b:-1", int32(7))
	f.Add(`{"clusterAffinities": [{"affinityName": "x", "overflowAffinities": [{}]}], "clusterTolerations": [{"operator": "Exists"}]}`, "", int32(math.MaxInt32))
	fleet := fleetOf("a region=eu pods=3", "b region=us pods=9 taint=NoSelect", "c")
	f.Fuzz(func(t *testing.T, text, previous string, replicas int32) {
		placement := &policyv1alpha1.Placement{}
		if json.Unmarshal([]byte(text), placement) != nil {
			return
		}
		in := PlacementInput{Placement: placement, Resource: deployment, Workload: true, Replicas: replicas, Previous: targetsOf(previous)}
		if decision := DecidePlacement(fleet, in, noon); decision.Reason == "" || decision.Scheduled != (decision.Reason == workv1alpha2.BindingReasonSuccess) {
			t.Errorf("the decision is %+v", decision)
		}
	})
}

// TestPartialPlacementKeepsItsPromises decides by chance with and without it: what
// can be placed as a whole is, in the same way; else no more is placed than is
// wanted, no cluster gets more than it has room for, and who decides again with that
// places no less, and the rest as soon as there is room.
func TestPartialPlacementKeepsItsPromises(t *testing.T) {
	partly := 0
	for seed := range uint64(4000) {
		chance := byChance{rand.New(rand.NewPCG(seed, 21))}
		clusters := chance.clusters()
		in := chance.input(t, clusters)
		in.Replicas *= 3
		fleet := fleetOf(clusters...)
		plain := DecidePlacement(fleet, in, noon)
		in.Partial = true
		decision := DecidePlacement(fleet, in, noon)
		if plain.Scheduled && (textOf(plain.Clusters) != textOf(decision.Clusters) || !decision.Scheduled) {
			t.Fatalf("seed %d: %s became %s", seed, textOf(plain.Clusters), textOf(decision.Clusters))
		}
		if decision.Partial {
			partly++
			checkPartial(t, seed, fleet, in, decision)
		}
	}
	if partly < 300 {
		t.Errorf("only %d decisions were for a part of the replicas", partly)
	}
}

func checkPartial(t *testing.T, seed uint64, fleet view.Fleet, in PlacementInput, decision SchedulingDecision) {
	t.Helper()
	sum := placedReplicas(decision.Clusters)
	if decision.Scheduled || sum == 0 || sum >= int64(in.Replicas) || decision.Reason != workv1alpha2.BindingReasonUnschedulable {
		t.Fatalf("seed %d: %d of %d replicas are placed: %+v", seed, sum, in.Replicas, decision)
	}
	had := map[string]int32{}
	for _, target := range in.Previous {
		had[target.Name] = target.Replicas
	}
	for _, target := range decision.Clusters {
		v, _ := decision.VerdictForCluster(target.Name)
		if !v.Chosen || v.Room >= 0 && target.Replicas > had[target.Name]+v.Room {
			t.Fatalf("seed %d: %s gets %d, and had %d: %+v", seed, target.Name, target.Replicas, had[target.Name], v)
		}
	}
	again := in
	again.Previous, again.ObservedAffinity, again.Fresh = decision.Clusters, decision.Affinity, false
	if next := DecidePlacement(fleet, again, noon); next.ClustersChosen() && placedReplicas(next.Clusters) < sum {
		t.Fatalf("seed %d: from %s to %s", seed, textOf(decision.Clusters), textOf(next.Clusters))
	}
	roomy := make([]view.Cluster, 0, fleet.Len())
	for i := range fleet.Len() {
		c := *fleet.ClusterAt(i)
		c.Room = nil
		roomy = append(roomy, c)
	}
	if next := DecidePlacement(view.NewFleet(roomy...), again, noon); !next.Scheduled {
		t.Fatalf("seed %d: there is room now, and %s", seed, next.Message)
	}
}

// TestNobodyIsCreditedTwice decides by chance: beside what it has a cluster gets no
// more than it has room for, and if all are divided anew no more than that and what
// of its own runs.
func TestNobodyIsCreditedTwice(t *testing.T) {
	scheduled := 0
	for seed := range uint64(3000) {
		chance := byChance{rand.New(rand.NewPCG(seed, 52))}
		clusters := chance.clusters()
		for n := range clusters {
			clusters[n] += fmt.Sprintf(" cpu=%d", chance.IntN(20)-8)
		}
		in := chance.input(t, clusters)
		in.Placement, in.Workload = placementOf(t, chance.one(dynamic, aggregated)), true
		in.Requirements = &workv1alpha2.ReplicaRequirements{ResourceRequest: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
		decision := DecidePlacement(fleetOf(clusters...), in, noon)
		if !decision.Scheduled || placedReplicas(in.Previous) > int64(in.Replicas) && !in.Fresh {
			continue
		}
		scheduled++
		for _, target := range decision.Clusters {
			cluster, _ := decision.round.fleet.ClusterNamed(target.Name)
			had := int64(0)
			if at := slices.IndexFunc(in.Previous, func(p workv1alpha2.TargetCluster) bool { return p.Name == target.Name }); at >= 0 {
				had = int64(in.Previous[at].Replicas)
			}
			free := min(cluster.Room.Free["cpu"], cluster.Room.Free["pods"]) / 1000
			if room := had + free; in.Fresh && int64(target.Replicas) > max(0, room) || !in.Fresh && int64(target.Replicas) > had+max(0, free) {
				t.Fatalf("seed %d: %s gets %d, had %d and has room for %d more (anew: %t)", seed, target.Name, target.Replicas, had, free, in.Fresh)
			}
		}
	}
	if scheduled < 500 {
		t.Errorf("only %d decisions were made", scheduled)
	}
}
