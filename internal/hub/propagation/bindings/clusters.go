// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/stakes"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// clusterWatch tells the fleet of the clusters, and brings back the bindings that a
// change of one can matter to.
type clusterWatch struct {
	BindingControllerDeps

	stakes  *stakes.Stakes
	hearing *fleet.ClusterThrottle
	news    *clusterNews
}

// clusterHandler tells the fleet of each object, and notes its change for the bindings that can
// care. gone is true for an object that was deleted.
func (w clusterWatch) clusterHandler(tell func(object client.Object, gone bool) (before, after *view.Cluster)) handler.EventHandler {
	take := func(ctx context.Context, q bindingQueue, object client.Object, gone bool) {
		before, after := tell(object, gone)
		if ownsNamespace(before) != ownsNamespace(after) {
			w.Reserved(object.GetName())
		}
		if before == nil || after == nil || !view.AreAlike(*before, *after) {
			w.news.recordChange(object.GetName(), before, after)
		}
		if before == nil && after != nil {
			w.enqueueReturned(ctx, q, after.Name)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q bindingQueue) {
			if e.IsInInitialList { // all bindings are looked at then
				tell(e.Object, false)
				return
			}
			take(ctx, q, e.Object, false)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q bindingQueue) { take(ctx, q, e.ObjectNew, false) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q bindingQueue) { take(ctx, q, e.Object, true) },
	}
}

// ownsNamespace reports whether the namespace of the name of a cluster, nil if there is none, is
// the cluster's.
func ownsNamespace(cluster *view.Cluster) bool { return cluster != nil && cluster.OwnsNamespace() }

// enqueueReturned brings back the bindings of what a cluster has that has just come, when
// it is settled whether it is still to have that. It was here before: works are
// not taken from a cluster that the hub does not know. Whoever deletes a cluster
// takes its works, too; one that went by mistake comes back and has them.
func (w clusterWatch) enqueueReturned(ctx context.Context, q bindingQueue, cluster string) {
	works := &workv1.ManifestWorkList{}
	if err := w.Client.List(ctx, works, client.InNamespace(cluster), client.UnsafeDisableDeepCopy); err != nil {
		return // only a missing cache gives an error
	}
	for i := range works.Items {
		if name := deliver.BindingOf(&works.Items[i]); name.Name != "" {
			q.AddAfter(reconcile.Request{NamespacedName: name}, fleet.Settling)
		}
	}
}

func (w clusterWatch) observeCluster(object client.Object, gone bool) (before, after *view.Cluster) {
	cluster, ok := object.(*clusterv1.ManagedCluster)
	if !ok || gone {
		cluster = nil
	}
	return w.Fleet.SetCluster(object.GetName(), cluster)
}

func (w clusterWatch) observeConnection(object client.Object, gone bool) (before, after *view.Cluster) {
	connection, ok := object.(*fleetv1alpha1.ClusterConnection)
	if !ok || gone {
		connection = nil
	}
	return w.Fleet.SetConnection(object.GetName(), connection)
}

// bindingsToConfirm returns the bindings whose decisions are to be confirmed as a cluster has
// changed, after all that is more urgent.
func (w clusterWatch) bindingsToConfirm(applied decide.AppliedPlacements, cluster string, change clusterChange) []types.NamespacedName {
	before := change.before
	after := change.after
	if before == nil || after == nil {
		return nil
	}
	names := w.stakes.AffectedBindings(cluster, false, func(of *stakes.Group, _ bool) bool { return applied.Reconfirms(of, before, after) })
	w.Store.Decider.RequestConfirmation(names...)
	return names
}

// affectedBindings returns the bindings that a change of a cluster can matter to: to what
// is decided, to whether anything is sent there, or to what is known of the object there. After
// a gap the cluster counts as one that has just come.
func (w clusterWatch) affectedBindings(applied decide.AppliedPlacements, cluster string, change clusterChange) []types.NamespacedName {
	before := change.before
	after := change.after
	if change.gap && after != nil {
		before = nil
	}
	heard := before == nil || after == nil || before.Available != after.Available || ownsNamespace(before) != ownsNamespace(after)
	return w.stakes.AffectedBindings(cluster, heard, func(of *stakes.Group, target bool) bool {
		return applied.Affected(of, before, after, target)
	})
}
