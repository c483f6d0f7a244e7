// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// counting counts what is enqueued.
type counting struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added int
}

func (q *counting) Add(reconcile.Request) { q.added++ }

// TestAFloodOfClaimsIsOneChange has a member change its claims again and again, and another
// cluster come. Each of them has one turn.
func TestAFloodOfClaimsIsOneChange(t *testing.T) {
	const placements, updates = 100, 1000
	c := NewSchedulingController(nil, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), events.NewDiscardRecorder())
	for i := range placements {
		var p clusterv1beta1.ClusterPredicate
		p.RequiredClusterSelector.ClaimSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "turn", Operator: metav1.LabelSelectorOpExists}}
		track(t, c.model, fmt.Sprint(i), p)
	}
	handler, q := newModelHandler(c.observeCluster), &counting{}
	for i := range updates {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "flood"}}
		if i%2 == 0 {
			mc.Status.ClusterClaims = []clusterv1.ManagedClusterClaim{{Name: "turn", Value: fmt.Sprint(i)}}
		}
		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: mc, ObjectNew: mc}, q)
	}
	handler.Create(t.Context(), event.CreateEvent{Object: &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}, q)
	if q.added > 0 {
		t.Errorf("events of a cluster have enqueued %d Placements before it was its turn", q.added)
	}
	for _, want := range []string{"flood", "other"} {
		next, there := c.model.nextChange()
		if !there || next.name != want {
			t.Fatalf("it is the turn of %q, want %q", next.name, want)
		}
		next.asked = nil
		c.model.asked(next, 0)
	}
	if next, there := c.model.nextChange(); there {
		t.Errorf("%q has another turn", next.name)
	}
}

// ticking is a clock by which whatever is looked at takes some time.
type ticking struct {
	clock.PassiveClock
	now time.Time
}

func (c *ticking) Now() time.Time {
	c.now = c.now.Add(100 * time.Millisecond)
	return c.now
}

func (c *ticking) Since(at time.Time) time.Duration { return c.Now().Sub(at) }

// enqueued are the Placements that were enqueued.
type enqueued struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	namespaces []string
}

func (q *enqueued) Add(request reconcile.Request) {
	q.namespaces = append(q.namespaces, request.Namespace)
}

// TestANamespaceOfSlowPlacementsHasItsTurnsOnly has a cluster change that many Placements of a
// namespace ask about for long, and one of another namespace.
func TestANamespaceOfSlowPlacementsHasItsTurnsOnly(t *testing.T) {
	const slow = 100
	c := NewSchedulingController(nil, &ticking{}, events.NewDiscardRecorder())
	_, seen := c.model.snapshot()
	add := func(namespace, name string) {
		request, problems := placement.CompilePlacement(&clusterv1beta1.Placement{}, []scheduler.ClusterSet{{Name: "all", Clusters: labels.Everything()}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		c.model.trackPlacement(types.NamespacedName{Namespace: namespace, Name: name}, trackedPlacement{request: request, seen: seen})
	}
	for i := range slow {
		add("shop", fmt.Sprint(i))
	}
	add("bank", "0")
	for i := range 5 {
		c.model.setCluster(view.Cluster{Name: fmt.Sprint(i), Accepted: true})
	}
	q := &enqueued{}
	for range 4 {
		c.enqueueOfOneTurn(q)
	}
	if n := len(q.namespaces); n != 4 {
		t.Errorf("%d Placements were enqueued in four turns, want each of them at once", n)
	}
	if !slices.Contains(q.namespaces, "bank") {
		t.Error("the Placement of another namespace waits for those of one")
	}
	for c.enqueueOfOneTurn(q) {
	}
	if n := len(q.namespaces); n != 5*(slow+1) {
		t.Errorf("%d Placements were enqueued in the end, want all for each cluster", n)
	}
}

// TestWhoIsToldOfTooMuchLooksAtAll has more clusters change than a namespace is asked about one
// after the other.
func TestWhoIsToldOfTooMuchLooksAtAll(t *testing.T) {
	m := newFleetModel()
	key := types.NamespacedName{Namespace: "apps", Name: "p"}
	var p clusterv1beta1.ClusterPredicate
	p.RequiredClusterSelector.LabelSelector.MatchLabels = map[string]string{"tier": "gold"}
	track(t, m, key.Name, p)
	for i := range 3 * changesMax {
		m.setCluster(view.Cluster{Name: fmt.Sprint(i)})
		if n := len(m.tenants[key.Namespace].waiting); n > changesMax {
			t.Fatalf("%d changes wait", n)
		}
	}
	if got := m.changed(time.Unix(0, 0), func() {}); len(got) != 1 {
		t.Errorf("%d Placements are looked at, want the one", len(got))
	}
	if got := m.changed(time.Unix(0, 0), func() {}); len(got) != 0 {
		t.Errorf("%d Placements are looked at again", len(got))
	}
}

// TestManyNamespacesKeepFewChanges has all clusters of a fleet change at once on a hub with many namespaces.
func TestManyNamespacesKeepFewChanges(t *testing.T) {
	const namespaces, clusters = 2000, changesMax
	m := newFleetModel()
	request, problems := placement.CompilePlacement(&clusterv1beta1.Placement{}, []scheduler.ClusterSet{{Name: "all", Clusters: labels.Everything()}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for n := range namespaces {
		m.trackPlacement(types.NamespacedName{Namespace: fmt.Sprint(n), Name: "p"}, trackedPlacement{request: request})
	}
	for n := range clusters {
		m.setCluster(view.Cluster{Name: fmt.Sprint(n), Accepted: true})
	}
	kept := 0
	for _, of := range m.tenants {
		kept += len(of.waiting)
	}
	if kept > changesSum {
		t.Errorf("%d changes are kept, want %d at most", kept, changesSum)
	}
	if got := m.changed(time.Unix(0, 0), func() {}); len(got) != namespaces {
		t.Errorf("%d Placements are looked at, want all %d, once each", len(got), namespaces)
	}
}

// TestPlacementsAreComparedWithWhatTheyHaveSeen changes a cluster several times before
// its turn, while Placements look at it.
func TestPlacementsAreComparedWithWhatTheyHaveSeen(t *testing.T) {
	gold := func(value string) view.Cluster {
		return view.Cluster{Name: "c", Labels: map[string]string{"tier": value}}
	}
	for name, tc := range map[string]struct {
		reason string
		seen   []string // the last one is how it is at its turn
		by     int      // which of them the Placement has seen
		want   int
	}{
		"gold and back":              {reason: "it is as it was", seen: []string{"iron", "gold", "iron"}, by: 0},
		"gold when it was looked at": {reason: "it is gold no more", seen: []string{"iron", "gold", "iron"}, by: 1, want: 1},
		"iron when it was looked at": {reason: "it is gold again", seen: []string{"gold", "iron", "gold"}, by: 1, want: 1},
		"looked at as it is":         {reason: "there is nothing new", seen: []string{"iron", "gold"}, by: 1},
		"long ago": {
			reason: "how it was is not known any more", by: 0, want: 1,
			seen: []string{"gold", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "17", "gold"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, now, key := newFleetModel(), time.Unix(0, 0), types.NamespacedName{Namespace: "apps", Name: "p"}
			var p clusterv1beta1.ClusterPredicate
			p.RequiredClusterSelector.LabelSelector.MatchLabels = map[string]string{"tier": "gold"}
			track(t, m, key.Name, p)
			for i, value := range tc.seen {
				change := func() { m.setCluster(gold(value)) }
				if i > 0 {
					change()
				} else {
					m.changed(now, change)
				}
				if _, seen := m.snapshot(); i == tc.by {
					m.trackPlacement(key, trackedPlacement{request: m.tenants[key.Namespace].requests[key].request, seen: seen})
				}
			}
			if got := len(m.changed(now, func() {})); got != tc.want {
				t.Errorf("%s: %d Placements are looked at, want %d", tc.reason, got, tc.want)
			}
		})
	}
}
