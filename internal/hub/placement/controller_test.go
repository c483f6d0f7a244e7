// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/hub/placement"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// patience only decides how long a failure takes.
const patience = time.Minute

type hub struct {
	*testing.T
	client.Client
}

func TestPlacements(t *testing.T) {
	ctrl.SetLogger(logr.Discard())
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	scheme, err := placement.NewPlacementScheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := placement.SetupPlacementController(t.Context(), mgr, placement.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("the manager: %v", err)
		}
	})
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	h := hub{T: t, Client: c}
	for i := range 5 {
		h.create(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("c%d", i), Labels: map[string]string{"env": []string{"prod", "test"}[i%2], "fleet": "yes"},
		}})
	}
	h.create(&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetSpec{
		ClusterSelector: clusterv1beta2.ManagedClusterSelector{
			SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"fleet": "yes"}},
		},
	}})
	t.Run("ByLabel", func(t *testing.T) { testByLabel(hub{T: t, Client: c}) })
}

// testByLabel follows a Placement from a namespace without sets to the deletion
// of a cluster.
func testByLabel(h hub) {
	h.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}})
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "prod"}, Spec: clusterv1beta1.PlacementSpec{
		Predicates: []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
			LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}},
		}}},
	}}
	h.create(p)
	h.satisfied(p, clusterv1beta1.PlacementReasonNoManagedClusterSetBindings)
	h.chosen(p)

	h.create(&clusterv1beta2.ManagedClusterSetBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "all"}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: "all"},
	})
	h.chosen(p, "c0", "c2", "c4")
	h.satisfied(p, clusterv1beta1.PlacementReasonAllDecisionsScheduled)

	h.update(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}, func(o client.Object) { o.GetLabels()["env"] = "test" })
	h.chosen(p, "c0", "c4")
	h.update(p, func(client.Object) { p.Spec.NumberOfClusters = new(int32(3)) })
	h.satisfied(p, clusterv1beta1.PlacementReasonNotAllDecisionsScheduled)
	h.update(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}, func(o client.Object) { o.GetLabels()["env"] = "prod" })
	h.chosen(p, "c0", "c1", "c4")
	h.satisfied(p, clusterv1beta1.PlacementReasonAllDecisionsScheduled)

	h.update(p, func(client.Object) {
		p.Spec.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions = []string{"managedCluster.nonsense("}
	})
	h.until(func() string {
		h.get(p)
		if c := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionMisconfigured); c == nil || c.Status != metav1.ConditionTrue {
			return fmt.Sprintf("the mistake is not reported: %+v", p.Status.Conditions)
		}
		return ""
	})
	h.chosen(p, "c0", "c1", "c4")
	h.update(p, func(client.Object) { p.Spec.Predicates[0].RequiredClusterSelector.CelSelector.CelExpressions = nil })
	if err := h.Delete(h.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c0"}}); err != nil {
		h.Fatal(err)
	}
	h.chosen(p, "c1", "c4")
	h.told(p,
		"DecisionCreate: 0 clusters chosen: 0 added, 0 removed", "DecisionUpdate: 3 clusters chosen: 3 added, 0 removed",
		"DecisionUpdate: 2 clusters chosen: 0 added, 1 removed", "DecisionUpdate: 3 clusters chosen: 1 added, 0 removed",
		"DecisionUpdate: 2 clusters chosen: 0 added, 1 removed")
}

// told waits until the events of the Placement are these, in any order: one for
// each change.
func (h hub) told(p *clusterv1beta1.Placement, want ...string) {
	h.Helper()
	slices.Sort(want)
	h.until(func() string {
		list := &eventsv1.EventList{}
		if err := h.List(h.Context(), list, client.InNamespace(p.Namespace)); err != nil {
			h.Fatal(err)
		}
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

func (h hub) create(o client.Object) {
	h.Helper()
	if err := h.Create(h.Context(), o); err != nil {
		h.Fatal(err)
	}
}

func (h hub) get(o client.Object) {
	h.Helper()
	if err := h.Get(h.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		h.Fatal(err)
	}
}

// update changes an object as it is now.
func (h hub) update(o client.Object, change func(client.Object)) {
	h.Helper()
	h.get(o)
	before := deepcopy.CopyObject(o)
	change(o)
	if err := h.Patch(h.Context(), o, client.MergeFrom(before)); err != nil {
		h.Fatal(err)
	}
}

// until waits until nothing is wrong.
func (h hub) until(wrong func() string) {
	h.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		problem := wrong()
		if problem == "" {
			return
		}
		if time.Now().After(deadline) {
			h.Fatal(problem)
		}
	}
}

// chosen waits until the PlacementDecisions list the clusters.
func (h hub) chosen(p *clusterv1beta1.Placement, want ...string) {
	h.Helper()
	h.until(func() string {
		list := &clusterv1beta1.PlacementDecisionList{}
		if err := h.List(h.Context(), list, client.InNamespace(p.Namespace), client.MatchingLabels{clusterv1beta1.LabelPlacement: p.Name}); err != nil {
			h.Fatal(err)
		}
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
	h.until(func() string {
		h.get(p)
		c := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied)
		if c == nil || c.Reason != reason || c.ObservedGeneration != p.Generation {
			return fmt.Sprintf("the condition is %+v, want reason %s", c, reason)
		}
		return ""
	})
}
