// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/testing/env"
	faults "github.com/capstan-io/capstan/test/integration/placement"
	"github.com/capstan-io/capstan/test/integration/placement/decisions"
)

// hubs are for tests that leave no more behind than a hub takes away.
var hubs = env.NewFixtures(faults.Servers, func(t testing.TB) decisions.Hub {
	h := decisions.NewHub(t, faults.Servers)
	h.CreateClusters(1, 3, "few")
	h.CreateClusters(4, 250, "many")
	return h
})

// TestOneClusterChangesOneSlice sees that slices are written before the status, and that one
// cluster changes one slice.
func TestOneClusterChangesOneSlice(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	c := h.StartController(&decisions.Writes{})
	p := decisions.Placing("slices", "many")
	h.CreateAll(p)
	h.ListsDecisions(p, map[int][]string{0: decisions.ClusterNames(4, 250)}, 1, 2, 3)
	if all := c.WritesOf("slices"); len(all) != 7 || all[6] != "status slices" {
		h.Errorf("the writes are %v, want three creations and their status, and then the status of the Placement", all)
	}
	for _, label := range []string{"none", "many"} {
		done := len(c.WritesOf("slices"))
		h.LabelCluster(decisions.ClusterName(123), label)
		want := sets.New(decisions.ClusterNames(4, 250)...)
		if label == "none" {
			want.Delete(decisions.ClusterName(123))
		}
		h.ListsDecisions(p, map[int][]string{0: sets.List(want)}, 1, 2, 3)
		if got := c.WritesOf("slices")[done:]; !slices.Equal(got, []string{"status slices-decision-2", "status slices"}) {
			h.Errorf("the writes for one cluster are %v, want its slice and the status of the Placement", got)
		}
	}
}

// TestNoClusterIsMissingWhileAllMoveToOtherGroups watches while clusters go from one group to another, from full slices to
// full slices: none may be missing at any time.
func TestNoClusterIsMissingWhileAllMoveToOtherGroups(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	h.StartController(&decisions.Writes{})
	p := decisions.Canaries(decisions.Placing("moves", ""), "few")
	h.CreateAll(p)
	h.ListsDecisions(p, map[int][]string{0: decisions.ClusterNames(1, 3), 1: decisions.ClusterNames(4, 250)}, 1, 2, 3, 4)
	watcher, err := h.Watch(h.Context(), &clusterv1beta1.PlacementDecisionList{}, client.InNamespace(decisions.Apps))
	h.NoError(err)
	defer watcher.Stop()
	h.PatchObject(p, func() { decisions.Canaries(p, "many") })
	all, seen := sets.New(decisions.ClusterNames(1, 250)...), map[string]sets.Set[string]{}
	complete, late := false, time.After(decisions.Patience)
	for {
		select {
		case <-late:
			h.Fatalf("the decisions are %v", seen)
		case event := <-watcher.ResultChan():
			d, ok := event.Object.(*clusterv1beta1.PlacementDecision)
			if !ok {
				h.Fatalf("watching: %+v", event)
			}
			seen[d.Name] = sets.New[string]()
			if event.Type != "DELETED" {
				for _, decision := range d.Status.Decisions {
					seen[d.Name].Insert(decision.ClusterName)
				}
			}
		}
		there, twice := sets.New[string](), 0
		for _, clusters := range seen {
			twice += len(clusters)
			there = there.Union(clusters)
		}
		complete = complete || there.Equal(all) // or else what was there before is still to come
		if missing := all.Difference(there); complete && len(missing) > 0 {
			h.Fatalf("%v are missing for a moment", sets.List(missing))
		}
		if complete && twice == len(all) && seen["moves-decision-2"].Equal(sets.New(decisions.ClusterNames(1, 3)...)) {
			break
		}
	}
	h.ListsDecisions(p, map[int][]string{0: decisions.ClusterNames(4, 250), 1: decisions.ClusterNames(1, 3)}, 1, 2, 5, 6)
}

// TestDecisionsThatAUserChangesAreMended changes decisions as no user should.
func TestDecisionsThatAUserChangesAreMended(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	h.StartController(&decisions.Writes{})
	p := decisions.Placing("edits", "few")
	h.CreateAll(p)
	few := map[int][]string{0: decisions.ClusterNames(1, 3)}
	h.ListsDecisions(p, few, 1)
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: decisions.Apps, Name: "edits-decision-1"}}
	h.NoError(h.Delete(h.Context(), d))
	h.ListsDecisions(p, few, 1)
	for name, edit := range map[string]func(){
		"a cluster":  func() { d.Status.Decisions = d.Status.Decisions[1:] },
		"the order":  func() { slices.Reverse(d.Status.Decisions) },
		"a reason":   func() { d.Status.Decisions[0].Reason = "mine" },
		"a score":    func() { d.Status.Decisions[0].Score = new(int64(7)) },
		"the labels": func() { delete(d.Labels, clusterv1beta1.LabelPlacement) },
		"the owner":  func() { d.OwnerReferences = nil },
	} {
		h.PatchObject(d, edit)
		h.AwaitNothingWrong(func() string {
			if problem := h.Wrong(p, few, []int{1}); problem != "" {
				return name + ": " + problem
			}
			h.ReadObject(d)
			for n, got := range d.Status.Decisions {
				if want := (clusterv1beta1.ClusterDecision{ClusterName: decisions.ClusterNames(1, 3)[n]}); got != want {
					return fmt.Sprintf("%s: decision %d is %+v, want %+v", name, n, got, want)
				}
			}
			return ""
		})
	}

	// One of another group is replaced: by the time a second request came, it
	// could be gone.
	h.ReadObject(d)
	before := d.DeepCopy()
	d.Labels[clusterv1beta1.LabelDecisionGroupIndex] = "7"
	h.NoError(h.Patch(h.Context(), d, client.MergeFrom(before)))
	h.ListsDecisions(p, few, 2)
}

// TestDecisionsOfOthersAreInTheWay has decisions of others in its way.
func TestDecisionsOfOthersAreInTheWay(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	c := h.StartController(&decisions.Writes{})
	few := map[int][]string{0: decisions.ClusterNames(1, 3)}
	mine := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: decisions.Apps, Name: "taken-decision-1"}}
	h.CreateAll(mine)
	taken := decisions.Placing("taken", "few")
	h.CreateAll(taken)
	h.ListsDecisions(taken, few, 2)
	version := mine.ResourceVersion
	h.ReadObject(mine)
	if mine.ResourceVersion != version {
		h.Errorf("somebody else's PlacementDecision was changed: %+v", mine)
	}

	a, b := decisions.Placing("a", "few"), decisions.Placing("a-decision-1", "few")
	h.CreateAll(a, b)
	h.ListsDecisions(a, few, 1)
	h.ListsDecisions(b, few, 1)

	// Nobody collects garbage here, so its decisions are there as they are for a
	// moment elsewhere.
	h.NoError(h.Delete(h.Context(), a))
	again := decisions.Placing("a", "few")
	h.CreateAll(again)
	h.ListsDecisions(again, few, 1)
	h.ListsDecisions(b, few, 1)

	long := decisions.Placing(strings.Repeat("a", 64), "few")
	h.CreateAll(long)
	h.AwaitNothingWrong(func() string {
		h.ReadObject(long)
		condition := meta.FindStatusCondition(long.Status.Conditions, clusterv1beta1.PlacementConditionMisconfigured)
		if condition == nil || condition.Status != metav1.ConditionTrue || !strings.Contains(condition.Message, "metadata.name") {
			return fmt.Sprintf("the condition is %+v", condition)
		}
		return ""
	})
	h.Settle("names")
	if got := c.WritesOf(long.Name); len(got) != 1 {
		h.Errorf("the writes for a name that is too long are %v, want its condition", got)
	}
}

// TestDecisionsOfAUserAreLeftAlone has a Placement whose decisions are a user's.
func TestDecisionsOfAUserAreLeftAlone(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	c := h.StartController(&decisions.Writes{})
	p := decisions.Placing("manual", "few")
	p.Annotations = map[string]string{clusterv1beta1.AnnotationSchedulingDisable: "true"}
	h.CreateAll(p)
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: decisions.Apps, Name: "manual-decision-1", Labels: map[string]string{clusterv1beta1.LabelPlacement: p.Name},
	}}
	h.CreateAll(d)
	h.PatchObject(d, func() {
		d.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: decisions.ClusterName(200)}}
	})
	h.Settle("manual")
	if got := c.WritesOf("manual"); len(got) > 0 {
		h.Errorf("the writes are %v, want none", got)
	}
	h.PatchObject(p, func() { p.Annotations = nil })
	h.ListsDecisions(p, map[int][]string{0: decisions.ClusterNames(1, 3)}, 1)
}

// TestANewControllerFindsNothingToDo sees that a new controller finds nothing to do.
func TestANewControllerFindsNothingToDo(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	first := h.StartController(&decisions.Writes{})
	many, groups, nobody, ranked := decisions.Placing("r-many", "many"), decisions.Canaries(decisions.Placing("r-groups", ""), "few"), decisions.Placing("r-nobody", "none"), decisions.Placing("r-ranked", "few")
	ranked.Spec.SortBy = clusterv1beta1.SortByScore
	h.CreateAll(many, groups, nobody, ranked)
	right := func() {
		h.Helper()
		h.ListsDecisions(many, map[int][]string{0: decisions.ClusterNames(4, 250)}, 1, 2, 3)
		h.ListsDecisions(groups, map[int][]string{0: decisions.ClusterNames(1, 3), 1: decisions.ClusterNames(4, 250)}, 1, 2, 3, 4)
		h.ListsDecisions(nobody, nil, 1)
		h.ListsDecisions(ranked, map[int][]string{0: decisions.ClusterNames(1, 3)}, 1)
	}
	right()
	first.Stop()
	second := h.StartController(&decisions.Writes{})
	h.AwaitNothingWrong(func() string {
		if n := second.CountEvaluations(h); n < 4 {
			return fmt.Sprintf("the new controller has looked at %d Placements, want 4", n)
		}
		return ""
	})
	h.Settle("restart")
	for _, p := range []string{"r-many", "r-groups", "r-nobody", "r-ranked"} {
		if got := second.WritesOf(p); len(got) > 0 {
			h.Errorf("the writes of %s after a restart are %v, want none", p, got)
		}
	}
	right()
}
