// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/test/integration/placement/decisions"
)

// TestOnlyPlacementsThatCareAreEvaluated counts how often clusters are chosen for 60 Placements, of which 10
// care about the tier of a cluster.
func TestOnlyPlacementsThatCareAreEvaluated(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	h.LabelCluster(decisions.ClusterName(1), "tier-0")
	defer h.LabelCluster(decisions.ClusterName(1), "few")
	c := h.StartController(&decisions.Writes{})
	for i := range 60 {
		h.CreateAll(decisions.Placing(fmt.Sprintf("counted-%d", i), fmt.Sprintf("tier-%d", i%6)))
	}
	decided := func(reason string, want int) {
		h.Helper()
		h.AwaitNothingWrong(func() string {
			list := &clusterv1beta1.PlacementList{}
			h.NoError(h.List(h.Context(), list, client.InNamespace(decisions.Apps)))
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
	before := c.CountEvaluations(h)
	heart := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: decisions.ClusterName(1)}}
	h.PatchObject(heart, func() { heart.Status.Version.Kubernetes = "v1.36.0" })
	h.LabelCluster(decisions.ClusterName(1), "none") // whose event comes after that of the heartbeat
	decided(clusterv1beta1.PlacementReasonNoManagedClusterMatched, 60)
	if got := c.CountEvaluations(h) - before; got != 10 {
		h.Errorf("a heartbeat and a flip led to %d evaluations, want 10", got)
	}
}

// byHeat returns a Placement that goes by a score.
func byHeat(placement string) *clusterv1beta1.Placement {
	p := decisions.Placing(placement, "few")
	p.Spec.PrioritizerPolicy = clusterv1beta1.PrioritizerPolicy{
		Mode: clusterv1beta1.PrioritizerPolicyModeExact,
		Configurations: []clusterv1beta1.PrioritizerConfig{{Weight: 1, ScoreCoordinate: &clusterv1beta1.ScoreCoordinate{
			Type: clusterv1beta1.ScoreCoordinateTypeAddOn, AddOn: &clusterv1beta1.AddOnScore{ResourceName: placement, ScoreName: "heat"},
		}}},
	}
	return p
}

// TestTimeAloneChangesDecisions changes what is chosen without any event.
func TestTimeAloneChangesDecisions(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	h.StartController(&decisions.Writes{})
	soon := metav1.NewTime(time.Now().Add(3 * time.Second))
	h.Heat(decisions.ClusterName(1), "expires", 90, &soon)
	h.Heat(decisions.ClusterName(2), "expires", 50, nil)
	expires := byHeat("expires")
	expires.Spec.NumberOfClusters = new(int32(1))
	tolerates := decisions.Placing("tolerates", "few")
	tolerates.Spec.Tolerations = []clusterv1beta1.Toleration{{Key: "gone", Operator: clusterv1beta1.TolerationOpExists, TolerationSeconds: new(int64(2))}}
	h.CreateAll(expires, tolerates)
	h.ListsDecisions(tolerates, map[int][]string{0: decisions.ClusterNames(1, 3)}, 1)
	tainted := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: decisions.ClusterName(3)}}
	h.PatchObject(tainted, func() {
		tainted.Spec.Taints = []clusterv1.Taint{{Key: "gone", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.Now()}}
	})
	defer h.PatchObject(tainted, func() { tainted.Spec.Taints = nil })
	h.ListsDecisions(tolerates, map[int][]string{0: decisions.ClusterNames(1, 2)}, 1)
	h.ListsDecisions(expires, map[int][]string{0: {decisions.ClusterName(2)}}, 1)
}

// TestDecisionsFollowScores follows decisions in the order of scores.
func TestDecisionsFollowScores(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	h.StartController(&decisions.Writes{})
	for n, value := range []int32{10, 30, 20} {
		h.Heat(decisions.ClusterName(n+1), "ranked", value, nil)
	}
	p := byHeat("ranked")
	p.Spec.SortBy, p.Spec.ScoreRateLimit = clusterv1beta1.SortByScore, "1s"
	h.CreateAll(p)
	listing := func(want ...string) {
		h.Helper()
		h.AwaitNothingWrong(func() string {
			d := &clusterv1beta1.PlacementDecision{}
			if err := h.Get(h.Context(), client.ObjectKey{Namespace: decisions.Apps, Name: "ranked-decision-1"}, d); err != nil {
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
			h.ReadObject(p)
			if scored := p.Status.LastScoreUpdateTime != nil; !slices.Equal(got, want) || scored != (p.Spec.SortBy == clusterv1beta1.SortByScore) {
				return fmt.Sprintf("the decisions are %v and the scores of %v, want %v", got, p.Status.LastScoreUpdateTime, want)
			}
			return ""
		})
	}
	listing("c002 30", "c003 20", "c001 10")
	h.Heat(decisions.ClusterName(1), "ranked", 40, nil)
	listing("c001 40", "c002 30", "c003 20")
	h.AwaitNothingWrong(func() string {
		list := &eventsv1.EventList{}
		h.NoError(h.List(h.Context(), list, client.InNamespace(decisions.Apps)))
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.UID == p.UID && e.Reason == clusterv1beta1.PlacementEventScoreUpdate
		}) {
			return "no event tells that scores were updated"
		}
		return ""
	})
	h.PatchObject(p, func() { p.Spec.SortBy = clusterv1beta1.SortByClusterName })
	listing("c001", "c002", "c003")
}

// TestAControllerDiesAtEachWriteForANewPlacement kills the controller at each write for a new Placement.
func TestAControllerDiesAtEachWriteForANewPlacement(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	for n, dead := 1, true; dead; n++ {
		p := decisions.Canaries(decisions.Placing(fmt.Sprintf("born-%d", n), ""), "few")
		dead = h.Survives(p, &decisions.Writes{Dies: n, Lost: n%2 == 0}, func() { h.CreateAll(p) },
			map[int][]string{0: decisions.ClusterNames(1, 3), 1: decisions.ClusterNames(4, 250)}, 1, 2, 3, 4)
		h.NoError(h.Delete(h.Context(), p))
	}
}

// TestAControllerDiesAtEachWriteOfAMove kills the controller at each write of a move of all clusters to
// another group.
func TestAControllerDiesAtEachWriteOfAMove(t *testing.T) {
	h := decisions.TakeHub(t, hubs)
	for n, dead := 1, true; dead; n++ {
		p := decisions.Canaries(decisions.Placing(fmt.Sprintf("moved-%d", n), ""), "few")
		first := h.StartController(&decisions.Writes{})
		h.CreateAll(p)
		h.ListsDecisions(p, map[int][]string{0: decisions.ClusterNames(1, 3), 1: decisions.ClusterNames(4, 250)}, 1, 2, 3, 4)
		first.Stop()
		dead = h.Survives(p, &decisions.Writes{Dies: n, Lost: n%2 == 0}, func() { h.PatchObject(p, func() { decisions.Canaries(p, "many") }) },
			map[int][]string{0: decisions.ClusterNames(4, 250), 1: decisions.ClusterNames(1, 3)}, 1, 2, 5, 6)
		h.NoError(h.Delete(h.Context(), p))
	}
}
