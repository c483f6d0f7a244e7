// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/pace"
)

func TestTheStatusListsTheGroups(t *testing.T) {
	written := []decisionSlice{
		{Number: 1, Group: 1, Clusters: names(1, 100)},
		{Number: 2, Name: "canary", Clusters: names(101, 102)},
		{Number: 3, Group: 1, Clusters: names(103, 105)},
	}
	want := []clusterv1beta1.DecisionGroupStatus{
		{DecisionGroupIndex: 0, DecisionGroupName: "canary", Decisions: []string{"p-decision-2"}, ClustersCount: 2},
		{DecisionGroupIndex: 1, Decisions: []string{"p-decision-1", "p-decision-3"}, ClustersCount: 103},
	}
	if diff := cmp.Diff(want, decisionGroupStatuses("p", written)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestWhatCostsTooMuchForTheFleetLeavesDecisionsAsTheyAre has expressions that
// cost too much before the last clusters are looked at, one of which is chosen.
func TestWhatCostsTooMuchForTheFleetLeavesDecisionsAsTheyAre(t *testing.T) {
	costly := strings.Repeat("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, ", 3) + `!"` + strings.Repeat("x", 5000) + `".contains("y")` + strings.Repeat(")", 3)
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "p", UID: "p"}}
	p.Spec.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
		CelSelector: clusterv1beta1.ClusterCelSelector{CelExpressions: []string{costly}},
	}}}
	d := &clusterv1beta1.PlacementDecision{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "p-decision-1", Labels: map[string]string{clusterv1beta1.LabelPlacement: "p"}},
		Status:     clusterv1beta1.PlacementDecisionStatus{Decisions: []clusterv1beta1.ClusterDecision{{ClusterName: "c109"}}},
	}
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
		ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{}},
	}}
	bound := &clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "all"},
	}
	scheme, err := NewPlacementScheme()
	if err != nil {
		t.Fatal(err)
	}
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(p, d, set, bound).WithStatusSubresource(p, d).
		WithIndex(d, indexPlacement, placementOfDecision).Build()
	now, before := time.Unix(0, 0), d.DeepCopy()
	c := NewSchedulingController(stored, clocktesting.NewFakePassiveClock(now), events.NewDiscardRecorder())
	for i := range 110 {
		c.model.setCluster(view.Cluster{Name: fmt.Sprintf("c%03d", i)})
	}
	if _, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)}); err == nil || !strings.Contains(err.Error(), "cost more than") {
		t.Errorf("the error is %v, want that the expressions cost too much", err)
	}
	for _, object := range []client.Object{p, d} {
		if err := stored.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before.Status, d.Status); diff != "" || d.OwnerReferences != nil {
		t.Errorf("the decision is written (-before +after):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(p.Status.Conditions, clusterv1beta1.PlacementConditionMisconfigured) {
		t.Errorf("the conditions are %+v, want %s", p.Status.Conditions, clusterv1beta1.PlacementConditionMisconfigured)
	}
	if got := c.model.changed(now, func() { c.model.forgetCluster("c000") }); len(got) != 1 {
		t.Errorf("%v are looked at again when a cluster is gone, want the Placement", got)
	}
}

// TestDecisionsOfANamespaceHaveAPace has a Placement with many groups change their names again and
// again, and one of another namespace be written.
func TestDecisionsOfANamespaceHaveAPace(t *testing.T) {
	const clusters, most = 50, 120
	scheme, err := NewPlacementScheme()
	if err != nil {
		t.Fatal(err)
	}
	set := &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
		ClusterSelector: clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{}},
	}}
	objects := []client.Object{set}
	placements := map[string]*clusterv1beta1.Placement{}
	for _, namespace := range []string{"shop", "bank"} {
		p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", UID: "p"}}
		p.Spec.DecisionStrategy.GroupStrategy.ClustersPerDecisionGroup = intstr.FromInt32(1)
		placements[namespace] = p
		objects = append(objects, p, &clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "all"},
		})
	}
	d := &clusterv1beta1.PlacementDecision{}
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(placements["shop"], d).
		WithIndex(d, indexPlacement, placementOfDecision).Build()
	c := NewSchedulingController(stored, clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), events.NewDiscardRecorder())
	c.pace = pace.NewWriteThrottle(most, 1)
	for i := range clusters {
		c.model.setCluster(view.Cluster{Name: fmt.Sprintf("c%03d", i)})
	}
	waits := map[string]time.Duration{}
	look := func(namespace string, n int) {
		t.Helper()
		p := &clusterv1beta1.Placement{}
		if err := stored.Get(t.Context(), client.ObjectKeyFromObject(placements[namespace]), p); err != nil {
			t.Fatal(err)
		}
		p.Spec.DecisionStrategy.GroupStrategy.DecisionGroups = []clusterv1beta1.DecisionGroup{{GroupName: fmt.Sprint("group-", n)}}
		if err := stored.Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		c.expectations.forgetExpectations(client.ObjectKeyFromObject(p)) // what the fake client makes has no UID to expect
		result, err := c.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		if err != nil {
			t.Fatal(err)
		}
		waits[namespace] = result.RequeueAfter
	}
	for n := range 10 {
		look("shop", n)
	}
	look("bank", 0)
	if waits["shop"] < time.Second || waits["bank"] != 0 {
		t.Errorf("whose groups change without end waits for %s, and another namespace for %s", waits["shop"], waits["bank"])
	}
}
