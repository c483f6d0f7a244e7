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
)

func TestPlacements(t *testing.T) {
	h := newHub(t)
	h.clusters(1, 3, "few")
	h.clusters(4, 250, "many")
	h.run("ManyClusters", manyClusters)
	h.run("Moves", moves)
	h.run("Edits", edits)
	h.run("Names", sameNames)
	h.run("LeftAlone", leftAlone)
	h.run("Restart", restart)
	h.run("Evaluations", evaluations)
	h.run("Time", timeAlone)
	h.run("Scores", scores)
	h.run("KilledAtBirth", killedAtBirth)
	h.run("KilledInAMove", killedInAMove)
}

// manyClusters sees that slices are written before the status, and that one
// cluster changes one slice.
func manyClusters(h hub) {
	c := h.start(&writes{})
	p := placing("slices", "many")
	h.create(p)
	h.lists(p, map[int][]string{0: names(4, 250)}, 1, 2, 3)
	if all := c.of("slices"); len(all) != 7 || all[6] != "status slices" {
		h.Errorf("the writes are %v, want three creations and their status, and then the status of the Placement", all)
	}
	for _, label := range []string{"none", "many"} {
		done := len(c.of("slices"))
		h.label(name(123), label)
		want := sets.New(names(4, 250)...)
		if label == "none" {
			want.Delete(name(123))
		}
		h.lists(p, map[int][]string{0: sets.List(want)}, 1, 2, 3)
		if got := c.of("slices")[done:]; !slices.Equal(got, []string{"status slices-decision-2", "status slices"}) {
			h.Errorf("the writes for one cluster are %v, want its slice and the status of the Placement", got)
		}
	}
}

// moves watches while clusters go from one group to another, from full slices to
// full slices: none may be missing at any time.
func moves(h hub) {
	h.start(&writes{})
	p := canaries(placing("moves", ""), "few")
	h.create(p)
	h.lists(p, map[int][]string{0: names(1, 3), 1: names(4, 250)}, 1, 2, 3, 4)
	watcher, err := h.Watch(h.Context(), &clusterv1beta1.PlacementDecisionList{}, client.InNamespace(apps))
	h.ok(err)
	defer watcher.Stop()
	h.patch(p, func() { canaries(p, "many") })
	all, seen := sets.New(names(1, 250)...), map[string]sets.Set[string]{}
	complete, late := false, time.After(patience)
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
		if complete && twice == len(all) && seen["moves-decision-2"].Equal(sets.New(names(1, 3)...)) {
			break
		}
	}
	h.lists(p, map[int][]string{0: names(4, 250), 1: names(1, 3)}, 1, 2, 5, 6)
}

// edits changes decisions as no user should.
func edits(h hub) {
	h.start(&writes{})
	p := placing("edits", "few")
	h.create(p)
	few := map[int][]string{0: names(1, 3)}
	h.lists(p, few, 1)
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "edits-decision-1"}}
	h.ok(h.Delete(h.Context(), d))
	h.lists(p, few, 1)
	for name, edit := range map[string]func(){
		"a cluster":  func() { d.Status.Decisions = d.Status.Decisions[1:] },
		"the order":  func() { slices.Reverse(d.Status.Decisions) },
		"a reason":   func() { d.Status.Decisions[0].Reason = "mine" },
		"a score":    func() { d.Status.Decisions[0].Score = new(int64(7)) },
		"the labels": func() { delete(d.Labels, clusterv1beta1.LabelPlacement) },
		"the owner":  func() { d.OwnerReferences = nil },
	} {
		h.patch(d, edit)
		h.until(func() string {
			if problem := h.wrong(p, few, []int{1}); problem != "" {
				return name + ": " + problem
			}
			h.get(d)
			for n, got := range d.Status.Decisions {
				if want := (clusterv1beta1.ClusterDecision{ClusterName: names(1, 3)[n]}); got != want {
					return fmt.Sprintf("%s: decision %d is %+v, want %+v", name, n, got, want)
				}
			}
			return ""
		})
	}

	// One of another group is replaced: by the time a second request came, it
	// could be gone.
	h.get(d)
	before := d.DeepCopy()
	d.Labels[clusterv1beta1.LabelDecisionGroupIndex] = "7"
	h.ok(h.Patch(h.Context(), d, client.MergeFrom(before)))
	h.lists(p, few, 2)
}

// sameNames has decisions of others in its way.
func sameNames(h hub) {
	c := h.start(&writes{})
	few := map[int][]string{0: names(1, 3)}
	mine := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{Namespace: apps, Name: "taken-decision-1"}}
	h.create(mine)
	taken := placing("taken", "few")
	h.create(taken)
	h.lists(taken, few, 2)
	version := mine.ResourceVersion
	h.get(mine)
	if mine.ResourceVersion != version {
		h.Errorf("somebody else's PlacementDecision was changed: %+v", mine)
	}

	a, b := placing("a", "few"), placing("a-decision-1", "few")
	h.create(a, b)
	h.lists(a, few, 1)
	h.lists(b, few, 1)

	// Nobody collects garbage here, so its decisions are there as they are for a
	// moment elsewhere.
	h.ok(h.Delete(h.Context(), a))
	again := placing("a", "few")
	h.create(again)
	h.lists(again, few, 1)
	h.lists(b, few, 1)

	long := placing(strings.Repeat("a", 64), "few")
	h.create(long)
	h.until(func() string {
		h.get(long)
		condition := meta.FindStatusCondition(long.Status.Conditions, clusterv1beta1.PlacementConditionMisconfigured)
		if condition == nil || condition.Status != metav1.ConditionTrue || !strings.Contains(condition.Message, "metadata.name") {
			return fmt.Sprintf("the condition is %+v", condition)
		}
		return ""
	})
	h.settle("names")
	if got := c.of(long.Name); len(got) != 1 {
		h.Errorf("the writes for a name that is too long are %v, want its condition", got)
	}
}

// settle waits until a Placement is decided that comes after all that has
// happened.
func (h hub) settle(name string) {
	h.Helper()
	last := placing("settled-"+name, "few")
	h.create(last)
	h.lists(last, map[int][]string{0: names(1, 3)}, 1)
}

// leftAlone has a Placement whose decisions are a user's.
func leftAlone(h hub) {
	c := h.start(&writes{})
	p := placing("manual", "few")
	p.Annotations = map[string]string{clusterv1beta1.AnnotationSchedulingDisable: "true"}
	h.create(p)
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
		Namespace: apps, Name: "manual-decision-1", Labels: map[string]string{clusterv1beta1.LabelPlacement: p.Name},
	}}
	h.create(d)
	h.patch(d, func() { d.Status.Decisions = []clusterv1beta1.ClusterDecision{{ClusterName: name(200)}} })
	h.settle("manual")
	if got := c.of("manual"); len(got) > 0 {
		h.Errorf("the writes are %v, want none", got)
	}
	h.patch(p, func() { p.Annotations = nil })
	h.lists(p, map[int][]string{0: names(1, 3)}, 1)
}

// restart sees that a new controller finds nothing to do.
func restart(h hub) {
	first := h.start(&writes{})
	many, groups, nobody, ranked := placing("r-many", "many"), canaries(placing("r-groups", ""), "few"), placing("r-nobody", "none"), placing("r-ranked", "few")
	ranked.Spec.SortBy = clusterv1beta1.SortByScore
	h.create(many, groups, nobody, ranked)
	right := func() {
		h.Helper()
		h.lists(many, map[int][]string{0: names(4, 250)}, 1, 2, 3)
		h.lists(groups, map[int][]string{0: names(1, 3), 1: names(4, 250)}, 1, 2, 3, 4)
		h.lists(nobody, nil, 1)
		h.lists(ranked, map[int][]string{0: names(1, 3)}, 1)
	}
	right()
	first.stop()
	second := h.start(&writes{})
	h.until(func() string {
		if n := second.evaluations(h); n < 4 {
			return fmt.Sprintf("the new controller has looked at %d Placements, want 4", n)
		}
		return ""
	})
	h.settle("restart")
	for _, p := range []string{"r-many", "r-groups", "r-nobody", "r-ranked"} {
		if got := second.of(p); len(got) > 0 {
			h.Errorf("the writes of %s after a restart are %v, want none", p, got)
		}
	}
	right()
}
