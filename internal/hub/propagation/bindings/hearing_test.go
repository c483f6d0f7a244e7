// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/stakes"
	"github.com/capstan-io/capstan/internal/hub/propagation/store"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
)

// added counts the bindings that are to be looked at now, and has the longest time after
// which others are.
type added struct {
	bindingQueue
	now   int
	after time.Duration
}

func (a *added) Add(reconcile.Request) { a.now++ }

func (a *added) AddAfter(_ reconcile.Request, after time.Duration) {
	if after <= 0 {
		a.now++
	}
	a.after = max(a.after, after)
}

// watchOf is a watch of clusters, with bindings that are sent to the clusters "flaps" and
// "fails".
func watchOf(clk clock.PassiveClock, bindings int) clusterWatch {
	clusters := fleet.NewFleet(clk)
	watch := clusterWatch{
		BindingControllerDeps: BindingControllerDeps{Fleet: clusters, Clock: clk, Store: store.NewBindingStore(nil, decide.NewDecider(decide.DeciderOptions{Fleet: clusters, Clock: clk}), clusters, store.NewWriteMeter(clk)), Reserved: func(string) {}},
		stakes:                &stakes.Stakes{}, hearing: fleet.NewClusterThrottle(clk), news: newClusterNews(),
	}
	for i := range bindings {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint(i)}}
		b.Annotations = map[string]string{policyv1alpha1.AnnotationAppliedPlacement: `{"clusterAffinity":{"labelSelector":{"matchLabels":{"agent.example/load":"low"}}}}`}
		b.Spec.Placement = &policyv1alpha1.Placement{}
		b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "flaps"}, {Name: "fails"}}
		watch.stakes.Set(b)
	}
	return watch
}

// followed returns a handler that has each change followed at once.
func followed(watch clusterWatch) handler.EventHandler {
	fed := watch.clusterHandler(watch.observeCluster)
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q bindingQueue) {
			fed.Create(ctx, e, q)
			watch.followChanges(q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q bindingQueue) {
			fed.Update(ctx, e, q)
			watch.followChanges(q)
		},
	}
}

// TestAClusterThatFlapsLeavesWorkersToOthers has an agent say for ten minutes, twenty times
// a second, that its cluster is available, and that it is not.
func TestAClusterThatFlapsLeavesWorkersToOthers(t *testing.T) {
	const bindings, minutes, perMinute = 10, 10, 20 * 60
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	watch := watchOf(clk, bindings)
	q := &added{}
	handler := followed(watch)
	saying := func(cluster string, turn int, available metav1.ConditionStatus) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster, ResourceVersion: fmt.Sprint(turn + 1)}}
		mc.Spec.HubAcceptsClient = true
		mc.Status.Conditions = []metav1.Condition{{Type: clusterv1.ManagedClusterConditionAvailable, Status: available}}
		return mc
	}
	says := func(cluster string, turn int, available metav1.ConditionStatus) {
		handler.Update(t.Context(), event.UpdateEvent{ObjectNew: saying(cluster, turn, available)}, q)
	}
	for _, cluster := range []string{"flaps", "fails"} {
		handler.Create(t.Context(), event.CreateEvent{Object: saying(cluster, 0, metav1.ConditionTrue), IsInInitialList: true}, q)
	}
	for turn := range minutes * perMinute {
		says("flaps", turn+1, []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue}[turn%2])
		clk.SetTime(clk.Now().Add(time.Minute / perMinute))
	}
	if most := bindings * (fleet.HeardAtOnce + minutes); q.now > most {
		t.Errorf("in %d minutes, bindings are looked at %d times at once, want %d at most", minutes, q.now, most)
	}
	if q.after == 0 || q.after > fleet.HeardEvery {
		t.Errorf("what it says last is heard after %s, want %s at most", q.after, fleet.HeardEvery)
	}
	*q = added{}
	tainted := saying("flaps", minutes*perMinute+1, metav1.ConditionTrue)
	tainted.Spec.Taints = []clusterv1.Taint{{Key: "maintenance", Effect: clusterv1.TaintEffectNoSelect}}
	handler.Update(t.Context(), event.UpdateEvent{ObjectNew: tainted}, q)
	if q.after > 0 {
		t.Errorf("what an administrator does with the cluster is heard after %s", q.after)
	}
	*q = added{}
	says("fails", 1, metav1.ConditionFalse)
	if q.now != bindings {
		t.Errorf("of another cluster that fails, %d bindings are looked at at once, want %d", q.now, bindings)
	}
	clk.SetTime(clk.Now().Add(fleet.HeardAtOnce * fleet.HeardEvery))
	*q = added{}
	says("flaps", minutes*perMinute+2, metav1.ConditionFalse)
	if q.now != bindings {
		t.Errorf("of the cluster that was calm since, %d bindings are looked at at once, want %d", q.now, bindings)
	}
}

// TestALabelThatFlapsLeavesWorkersToOthers has an agent change a label that is left to it
// for ten minutes, twenty times a second.
func TestALabelThatFlapsLeavesWorkersToOthers(t *testing.T) {
	const bindings, minutes, perMinute = 10, 10, 20 * 60
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	watch, q := watchOf(clk, bindings), &added{}
	handler := followed(watch)
	labelled := func(turn int, load, env string) *clusterv1.ManagedCluster {
		mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "flaps", ResourceVersion: fmt.Sprint(turn + 1), Labels: map[string]string{"agent.example/load": load, "env": env}}}
		mc.Spec.HubAcceptsClient = true
		agentlabels.AllowedKeys{"agent.example/*"}.AnnotateCluster(mc)
		return mc
	}
	handler.Create(t.Context(), event.CreateEvent{Object: labelled(0, "high", "test"), IsInInitialList: true}, q)
	for turn := range minutes * perMinute {
		handler.Update(t.Context(), event.UpdateEvent{ObjectNew: labelled(turn+1, []string{"low", "high"}[turn%2], "test")}, q)
		clk.SetTime(clk.Now().Add(time.Minute / perMinute))
	}
	// Each is added twice, to be decided about and to be confirmed.
	if most := 2 * bindings * (fleet.HeardAtOnce + minutes); q.now == 0 || q.now > most {
		t.Errorf("in %d minutes, bindings are looked at %d times at once, want some, and %d at most", minutes, q.now, most)
	}
	if q.after == 0 || q.after > fleet.HeardEvery {
		t.Errorf("what it says last is heard after %s, want %s at most", q.after, fleet.HeardEvery)
	}
	*q = added{}
	handler.Update(t.Context(), event.UpdateEvent{ObjectNew: labelled(minutes*perMinute+1, "low", "production")}, q)
	if q.now != 2*bindings {
		t.Errorf("of a label of an administrator, bindings are looked at %d times at once, want %d", q.now, 2*bindings)
	}
}
