// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
)

// evaluations counts how often clusters are chosen for 60 Placements, of which 10
// care about the tier of a cluster.
func evaluations(h hub) {
	h.label(name(1), "tier-0")
	defer h.label(name(1), "few")
	c := h.start(&writes{})
	for i := range 60 {
		h.create(placing(fmt.Sprintf("counted-%d", i), fmt.Sprintf("tier-%d", i%6)))
	}
	decided := func(reason string, want int) {
		h.Helper()
		h.until(func() string {
			list := &clusterv1beta1.PlacementList{}
			h.ok(h.List(h.Context(), list, client.InNamespace(apps)))
			got := 0
			for _, p := range list.Items {
				if satisfied := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied); satisfied != nil && satisfied.Reason == reason {
					got++
				}
			}
			if got != want {
				return fmt.Sprintf("%d Placements have reason %s, want %d", got, reason, want)
			}
			return ""
		})
	}
	decided(clusterv1beta1.PlacementReasonAllDecisionsScheduled, 10)
	decided(clusterv1beta1.PlacementReasonNoManagedClusterMatched, 50)
	before := c.evaluations(h)
	heart := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name(1)}}
	h.patch(heart, func() { heart.Status.Version.Kubernetes = "v1.36.0" })
	h.label(name(1), "none") // whose event comes after that of the heartbeat
	decided(clusterv1beta1.PlacementReasonNoManagedClusterMatched, 60)
	if got := c.evaluations(h) - before; got != 10 {
		h.Errorf("a heartbeat and a flip led to %d evaluations, want 10", got)
	}
}

// byHeat returns a Placement that goes by a score.
func byHeat(placement string) *clusterv1beta1.Placement {
	p := placing(placement, "few")
	p.Spec.PrioritizerPolicy = clusterv1beta1.PrioritizerPolicy{
		Mode: clusterv1beta1.PrioritizerPolicyModeExact,
		Configurations: []clusterv1beta1.PrioritizerConfig{{Weight: 1, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
			Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: placement, ScoreName: "heat"},
		}}},
	}
	return p
}

// heat sets the score of a cluster; until may be nil.
func (h hub) heat(cluster, resource string, value int32, until *metav1.Time) {
	h.Helper()
	h.ok(client.IgnoreAlreadyExists(h.Create(h.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}})))
	score := &clusterv1alpha1.AddOnPlacementScore{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: resource}}
	h.ok(client.IgnoreAlreadyExists(h.Create(h.Context(), score)))
	h.patch(score, func() {
		score.Status.Scores = []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "heat", Value: value}}
		score.Status.ValidUntil = until
	})
}

// timeAlone changes what is chosen without any event.
func timeAlone(h hub) {
	h.start(&writes{})
	soon := metav1.NewTime(time.Now().Add(3 * time.Second))
	h.heat(name(1), "expires", 90, &soon)
	h.heat(name(2), "expires", 50, nil)
	expires := byHeat("expires")
	expires.Spec.NumberOfClusters = new(int32(1))
	tolerates := placing("tolerates", "few")
	tolerates.Spec.Tolerations = []clusterv1beta1.Toleration{{Key: "gone", Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: new(int64(2))}}
	h.create(expires, tolerates)
	h.lists(tolerates, map[int][]string{0: names(1, 3)}, 1)
	tainted := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name(3)}}
	h.patch(tainted, func() {
		tainted.Spec.Taints = []clusterv1.Taint{{Key: "gone", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.Now()}}
	})
	defer h.patch(tainted, func() { tainted.Spec.Taints = nil })
	h.lists(tolerates, map[int][]string{0: names(1, 2)}, 1)
	h.lists(expires, map[int][]string{0: {name(2)}}, 1)
}

// scores follows decisions in the order of scores.
func scores(h hub) {
	h.start(&writes{})
	for n, value := range []int32{10, 30, 20} {
		h.heat(name(n+1), "ranked", value, nil)
	}
	p := byHeat("ranked")
	p.Spec.SortBy, p.Spec.ScoreRateLimit = clusterv1beta1.SortByScore, "1s"
	h.create(p)
	listing := func(want ...string) {
		h.Helper()
		h.until(func() string {
			d := &clusterv1beta1.PlacementDecision{}
			if err := h.Get(h.Context(), client.ObjectKey{Namespace: apps, Name: "ranked-decision-1"}, d); err != nil {
				return err.Error()
			}
			var got []string
			for _, decision := range d.Status.Decisions {
				text := decision.ClusterName
				if decision.Score != nil {
					text += fmt.Sprint(" ", *decision.Score)
				}
				got = append(got, text)
			}
			h.get(p)
			if scored := p.Status.LastScoreUpdateTime != nil; !slices.Equal(got, want) || scored != (p.Spec.SortBy == clusterv1beta1.SortByScore) {
				return fmt.Sprintf("the decisions are %v and the scores of %v, want %v", got, p.Status.LastScoreUpdateTime, want)
			}
			return ""
		})
	}
	listing("c002 30", "c003 20", "c001 10")
	h.heat(name(1), "ranked", 40, nil)
	listing("c001 40", "c002 30", "c003 20")
	h.until(func() string {
		list := &eventsv1.EventList{}
		h.ok(h.List(h.Context(), list, client.InNamespace(apps)))
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.UID == p.UID && e.Reason == clusterv1beta1.PlacementEventScoreUpdate
		}) {
			return "no event tells that scores were updated"
		}
		return ""
	})
	h.patch(p, func() { p.Spec.SortBy = clusterv1beta1.SortByClusterName })
	listing("c001", "c002", "c003")
}

// killedAtBirth kills the controller at each write for a new Placement.
func killedAtBirth(h hub) {
	for n, dead := 1, true; dead; n++ {
		p := canaries(placing(fmt.Sprintf("born-%d", n), ""), "few")
		dead = h.survives(p, &writes{dies: n, lost: n%2 == 0}, func() { h.create(p) },
			map[int][]string{0: names(1, 3), 1: names(4, 250)}, 1, 2, 3, 4)
		h.ok(h.Delete(h.Context(), p))
	}
}

// killedInAMove kills the controller at each write of a move of all clusters to
// another group.
func killedInAMove(h hub) {
	for n, dead := 1, true; dead; n++ {
		p := canaries(placing(fmt.Sprintf("moved-%d", n), ""), "few")
		first := h.start(&writes{})
		h.create(p)
		h.lists(p, map[int][]string{0: names(1, 3), 1: names(4, 250)}, 1, 2, 3, 4)
		first.stop()
		dead = h.survives(p, &writes{dies: n, lost: n%2 == 0}, func() { h.patch(p, func() { canaries(p, "many") }) },
			map[int][]string{0: names(4, 250), 1: names(1, 3)}, 1, 2, 5, 6)
		h.ok(h.Delete(h.Context(), p))
	}
}

// survives makes a change while a controller runs that dies at one of its writes,
// and sees what a new one makes of that. It returns false if the change takes
// fewer writes.
func (h hub) survives(p *clusterv1beta1.Placement, w *writes, change func(), groups map[int][]string, numbers ...int) bool {
	h.Helper()
	c := h.start(w)
	change()
	h.until(func() string {
		if problem := h.wrong(p, groups, numbers); problem != "" && len(w.all()) < w.dies {
			return fmt.Sprintf("after %d writes: %s", len(w.all()), problem)
		}
		return ""
	})
	c.stop()
	next := h.start(&writes{})
	h.lists(p, groups, numbers...)
	next.stop()
	return len(w.all()) >= w.dies
}
