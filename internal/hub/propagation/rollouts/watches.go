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
func (c *RolloutController) SetupWithManager(mgr ctrl.Manager, changed *inbox.Inbox[reconcile.Request]) error {
	spec := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	comes := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})
	return ctrl.NewControllerManagedBy(mgr).Named("propagationrollout").
		Watches(&fleetv1alpha1.PropagationRollout{}, &handler.EnqueueRequestForObject{}, spec).
		Watches(&fleetv1alpha1.ClusterPropagationRollout{}, &handler.EnqueueRequestForObject{}, spec).
		Watches(&policyv1alpha1.PropagationPolicy{}, handler.EnqueueRequestsFromMapFunc(c.rolloutsOfPolicy), comes).
		Watches(&policyv1alpha1.ClusterPropagationPolicy{}, handler.EnqueueRequestsFromMapFunc(c.rolloutsOfPolicy), comes).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.rolloutsOfCluster), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false }, DeleteFunc: func(event.DeleteEvent) bool { return false }, UpdateFunc: groupMayChange,
		})).
		WatchesRawSource(source.Func(changed.ForwardKeys)).
		WithOptions(order.SharedOptions(workers, func(rollout reconcile.Request) string { return rollout.Namespace })).
		Complete(conflict.RequeueConflicts(c))
}

// rolloutsOfPolicy returns the rollouts of a policy that comes or goes.
func (c *RolloutController) rolloutsOfPolicy(_ context.Context, policy client.Object) []reconcile.Request {
	return rolloutRequests(c.Stages.RolloutsOfPolicy(client.ObjectKeyFromObject(policy)))
}

// rolloutsOfCluster returns the rollouts that send something to a cluster.
func (c *RolloutController) rolloutsOfCluster(_ context.Context, cluster client.Object) []reconcile.Request {
	return rolloutRequests(c.Stages.RolloutsOfCluster(cluster.GetName()))
}

func rolloutRequests(keys []staging.RolloutKey) []reconcile.Request {
	var all []reconcile.Request
	for _, key := range keys {
		all = append(all, reconcile.Request{NamespacedName: key})
	}
	return all
}

// groupMayChange reports whether a cluster can be in another group by a change.
func groupMayChange(e event.UpdateEvent) bool {
	was, ok := e.ObjectOld.(*clusterv1.ManagedCluster)
	is, also := e.ObjectNew.(*clusterv1.ManagedCluster)
	return !ok || !also || !maps.Equal(was.Labels, is.Labels) || !maps.Equal(view.ClaimsOf(was), view.ClaimsOf(is))
}
