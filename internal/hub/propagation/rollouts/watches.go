// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"context"
	"maps"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/staging"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/order"
)

// SetupWithManager adds the controller to the manager. Changed has rollouts of
// which an object was looked at.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, changed *inbox.Inbox[reconcile.Request]) error {
	spec := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	comes := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	return ctrl.NewControllerManagedBy(mgr).Named("propagationrollout").
		Watches(&fleetv1alpha1.PropagationRollout{}, &handler.EnqueueRequestForObject{}, spec).
		Watches(&fleetv1alpha1.ClusterPropagationRollout{}, &handler.EnqueueRequestForObject{}, spec).
		Watches(&policyv1alpha1.PropagationPolicy{}, handler.EnqueueRequestsFromMapFunc(c.ofPolicy), comes).
		Watches(&policyv1alpha1.ClusterPropagationPolicy{}, handler.EnqueueRequestsFromMapFunc(c.ofPolicy), comes).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }, UpdateFunc: regrouped,
		})).
		WatchesRawSource(source.Func(changed.Open)).
		WithOptions(order.Shared(workers, func(rollout reconcile.Request) string { return rollout.Namespace })).
		Complete(conflict.Quiet(c))
}

// ofPolicy returns the rollouts of a policy that comes or goes.
func (c *Controller) ofPolicy(_ context.Context, policy client.Object) []reconcile.Request {
	return requests(c.Stages.OfPolicy(client.ObjectKeyFromObject(policy)))
}

// ofCluster returns the rollouts that send something to a cluster.
func (c *Controller) ofCluster(_ context.Context, cluster client.Object) []reconcile.Request {
	return requests(c.Stages.With(cluster.GetName()))
}

func requests(keys []staging.Key) []reconcile.Request {
	var all []reconcile.Request
	for _, key := range keys {
		all = append(all, reconcile.Request{NamespacedName: key})
	}
	return all
}

// regrouped tells whether a cluster can be in another group by a change.
func regrouped(e event.UpdateEvent) bool {
	was, ok := e.ObjectOld.(*clusterv1.ManagedCluster)
	is, also := e.ObjectNew.(*clusterv1.ManagedCluster)
	return !ok || !also || !maps.Equal(was.Labels, is.Labels) || !maps.Equal(view.Claims(was), view.Claims(is))
}
