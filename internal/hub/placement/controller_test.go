// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// hub has the placement controller at work on it.
type hub struct{ cluster.AdminClient }

// TestPlacements follows a Placement from a namespace without sets to the deletion of a cluster.
func TestPlacements(t *testing.T) {
	h, _ := startCounted(t)
	for i := range 5 {
		h.MustCreate(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("c%d", i), Labels: map[string]string{"env": []string{"prod", "test"}[i%2], "fleet": "yes"},
		}})
	}
	h.MustCreate(fleetSet("all"))
	h.MustCreate(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}})
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "prod"}, Spec: clusterv1beta1.PlacementSpec{
		Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
		}}},
	}}
	h.MustCreate(p)
	h.satisfied(p, clusterv1beta1.PlacementReasonNoManagedClusterSetBindings)
	h.chosen(p)

	h.MustCreate(&clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "all"},
	})
	h.chosen(p, "c0", "c2", "c4")
	h.satisfied(p, clusterv1beta1.PlacementReasonAllDecisionsScheduled)

	c1, c2 := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}
	h.MustPatch(c2, func() { c2.Labels["env"] = "test" })
	h.chosen(p, "c0", "c4")
	h.MustPatch(p, func() { p.Spec.NumberOfClusters = new(int32(3)) })
	h.satisfied(p, clusterv1beta1.PlacementReasonNotAllDecisionsScheduled)
	h.MustPatch(c1, func() { c1.Labels["env"] = "prod" })
	h.chosen(p, "c0", "c1", "c4")
	h.satisfied(p, clusterv1beta1.PlacementReasonAllDecisionsScheduled)

	h.MustPatch(p, func() {
		p.Spec.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions = []string{"managedCluster.nonsense("}
	})
	h.UntilRight(func() string {
		h.MustGet(p)
		if c := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionMisconfigured); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("the mistake is not reported: %+v", p.Status.Conditions)
		}
		return ""
	})
	h.chosen(p, "c0", "c1", "c4")
	h.MustPatch(p, func() { p.Spec.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions = nil })
	h.MustDelete(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c0"}})
	h.chosen(p, "c1", "c4")
	want := []string{ // in any order, one for each change
		"DecisionCreate: 0 clusters chosen: 0 added, 0 removed", "DecisionUpdate: 2 clusters chosen: 0 added, 1 removed",
		"DecisionUpdate: 2 clusters chosen: 0 added, 1 removed", "DecisionUpdate: 3 clusters chosen: 1 added, 0 removed",
		"DecisionUpdate: 3 clusters chosen: 3 added, 0 removed",
	}
	h.UntilRight(func() string {
		list := &eventsv1.EventList{}
		expect.NoError(t, h.List(t.Context(), list, client.InNamespace(p.Namespace)))
		var got []string
		for _, e := range list.Items {
			if e.Regarding.UID == p.UID {
				got = append(got, e.Reason+": "+e.Note)
			}
		}
		slices.Sort(got)
		return cmp.Diff(want, got)
	})
}

// chosen waits until the PlacementDecisions list the clusters.
func (h hub) chosen(p *clusterv1beta1.Placement, want ...string) {
	h.Helper()
	h.UntilRight(func() string {
		list := &clusterv1beta1.PlacementDecisionList{}
		expect.NoError(h, h.List(h.Context(), list, client.InNamespace(p.Namespace), client.MatchingLabels{clusterv1beta1.LabelPlacement: p.Name}))
		var got []string
		for _, d := range list.Items {
			for _, decision := range d.Status.Decisions {
				got = append(got, decision.ClusterName)
			}
		}
		if len(list.Items) == 0 || !slices.Equal(got, want) {
			return fmt.Sprintf("the decisions are %v in %d objects, want %v", got, len(list.Items), want)
		}
		return ""
	})
}

// satisfied waits until the condition has the reason.
func (h hub) satisfied(p *clusterv1beta1.Placement, reason string) {
	h.Helper()
	h.UntilRight(func() string {
		h.MustGet(p)
		c := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied)
		if c == nil || c.Reason != reason || c.ObservedGeneration != p.Generation {
			return fmt.Sprintf("the condition is %+v, want reason %s", c, reason)
		}
		return ""
	})
}
