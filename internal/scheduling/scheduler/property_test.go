// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

// byChance makes clusters and wishes by chance.
type byChance struct{ *rand.Rand }

func (c byChance) one(values ...string) string { return values[c.IntN(len(values))] }

func (c byChance) clusters() []view.Cluster {
	var clusters []view.Cluster
	for i := range c.IntN(25) {
		cluster := view.Cluster{
			Name: fmt.Sprintf("c%02d", i), Deleting: c.IntN(12) == 0, AsksToJoin: c.IntN(12) == 0, Decisions: c.IntN(5),
			Labels: map[string]string{"env": c.one("prod", "test"), "zone": c.one("a", "b", "c")},
			Claims: map[string]string{"cloud": c.one("own", "rented")},
		}
		if c.IntN(4) == 0 {
			cluster.Taints = []view.Taint{{
				Key: c.one("gpu", "full"), Since: noon, Effect: view.Effect(c.one(string(view.NoSelect), string(view.NoSelectIfNew), string(view.PreferNoSelect))),
			}}
		}
		clusters = append(clusters, cluster)
	}
	return clusters
}

func (c byChance) spec() RequestSpec {
	spec := RequestSpec{Scorers: []WeightedScorer{{Scorer: Balance{}, Weight: 1}, {Scorer: Steady{}, Weight: 1}}}
	if c.IntN(2) == 0 {
		spec.Predicates = []Predicate{{Labels: selects("env", c.one("prod", "test"))}, {Claims: selects("cloud", "own")}}
	}
	if c.IntN(3) == 0 {
		spec.Sets = []ClusterSet{{Name: "a", Clusters: labels.SelectorFromSet(labels.Set{"zone": "a"})}, {Name: "b", Clusters: labels.SelectorFromSet(labels.Set{"zone": "b"})}}
	}
	if c.IntN(3) == 0 {
		spec.Tolerations = []Toleration{{Key: "gpu", Operator: Exists}}
	}
	if c.IntN(3) == 0 {
		spec.Spread = []SpreadConstraint{{Key: "zone", MaxSkew: 1 + c.IntN(2), Hard: c.IntN(2) == 0}}
	}
	if c.IntN(3) > 0 {
		spec.Count = new(c.IntN(10))
	}
	return spec
}

func (c byChance) some(clusters []view.Cluster) []string {
	var names []string
	for _, cluster := range clusters {
		if c.IntN(3) == 0 {
			names = append(names, cluster.Name)
		}
	}
	return names
}

// TestSchedulesKeepTheirPromises schedules by chance, and asks for what holds
// always. A failure names the seed.
func TestSchedulesKeepTheirPromises(t *testing.T) {
	for seed := range uint64(2000) {
		chance := byChance{rand.New(rand.NewPCG(seed, 3))}
		clusters, spec := chance.clusters(), chance.spec()
		previous := chance.some(clusters)
		request := compiled(t, spec)
		fleet := view.NewFleet(clusters...)
		result := ScheduleClusters(fleet, request, previous, noon)

		now := newSchedulingCycle(fleet, previous, noon)
		for _, name := range result.Targets {
			i, _ := fleet.FindCluster(name)
			if request.eligibilityCode(now, i, fleet.ClusterAt(i)) != codeEligible {
				t.Fatalf("seed %d: %s is chosen, although a filter refuses it", seed, name)
			}
		}
		if spec.Count != nil && len(result.Targets) > *spec.Count {
			t.Fatalf("seed %d: %d are chosen, and %d were wanted", seed, len(result.Targets), *spec.Count)
		}
		if wanted, counted := request.WantedClusters(); len(spec.Spread) == 0 && counted && len(result.Targets) < min(wanted, result.EligibleCount()) {
			t.Fatalf("seed %d: %d are chosen of %d, and %d were wanted", seed, len(result.Targets), result.EligibleCount(), wanted)
		}
		for _, s := range spec.Spread {
			checkSkew(t, seed, s, fleet, result)
		}
		chance.Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
		chance.Shuffle(len(previous), func(i, j int) { previous[i], previous[j] = previous[j], previous[i] })
		if again := ScheduleClusters(view.NewFleet(clusters...), request, previous, noon); !slices.Equal(result.Targets, again.Targets) {
			t.Fatalf("seed %d: the order of clusters matters: %v, %v", seed, result.Targets, again.Targets)
		}
	}
}

// checkSkew makes sure that a hard constraint holds.
func checkSkew(t *testing.T, seed uint64, s SpreadConstraint, fleet view.Fleet, result ScheduleResult) {
	t.Helper()
	if !s.Hard {
		return
	}
	counts := map[string]int{}
	for _, i := range result.scored {
		if zone, has := s.topologyDomain(fleet.ClusterAt(i)); has {
			counts[zone] += 0
		}
	}
	for _, name := range result.Targets {
		i, _ := fleet.FindCluster(name)
		zone, _ := s.topologyDomain(fleet.ClusterAt(i))
		counts[zone]++
	}
	least, most := len(result.Targets), 0
	for _, n := range counts {
		least, most = min(least, n), max(most, n)
	}
	if most-least > s.MaxSkew && len(counts) > 0 {
		t.Fatalf("seed %d: the skew is %d, and at most %d is allowed: %v", seed, most-least, s.MaxSkew, counts)
	}
}

// TestNothingMovesWithoutNeed schedules again, with what was chosen as what was
// chosen before, and after changes that a request does not ask about.
func TestNothingMovesWithoutNeed(t *testing.T) {
	for seed := range uint64(1000) {
		chance := byChance{rand.New(rand.NewPCG(seed, 4))}
		clusters, spec := chance.clusters(), chance.spec()
		spec.Scorers = []WeightedScorer{{Scorer: Steady{}, Weight: 1}}
		request := compiled(t, spec)
		first := ScheduleClusters(view.NewFleet(clusters...), request, nil, noon)
		for i := range clusters {
			clusters[i].Joined, clusters[i].Version = !clusters[i].Joined, "v1.36.0"
			clusters[i].Claims["new"] = "x"
		}
		if again := ScheduleClusters(view.NewFleet(clusters...), request, first.Targets, noon); !slices.Equal(first.Targets, again.Targets) {
			t.Fatalf("seed %d: from %v to %v", seed, first.Targets, again.Targets)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add("env", "In", "prod", 1, 3, "zone", "gpu", "Exists")
	f.Add("", "Exists", "", -11, -1, "", "", "")
	f.Fuzz(func(t *testing.T, key, operator, value string, number, count int, topology, taint, tolerates string) {
		spec := RequestSpec{
			Predicates:  []Predicate{{Labels: selector(key, operator, value), Claims: selector(key, operator, value)}},
			Tolerations: []Toleration{{Key: taint, Operator: Operator(tolerates), Value: value}},
			Scorers:     []WeightedScorer{{Scorer: Steady{}, Weight: number}},
			Spread:      []SpreadConstraint{{Key: topology, MaxSkew: number, Hard: count%2 == 0}},
			Count:       &count,
		}
		request, problems := CompileRequest(spec)
		if len(problems) > 0 {
			return
		}
		ScheduleClusters(zoned("a1", "b2", "x3"), request, nil, noon)
	})
}

func selector(key, operator, value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOperator(operator), Values: []string{value}}}}
}
