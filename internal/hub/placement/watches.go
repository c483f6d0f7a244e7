// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
)

// workers is how many Placements are looked at at a time.
const workers = 8

// indexPlacement finds the PlacementDecisions of a Placement in the cache, by
// their names.
const indexPlacement = "placement-by-name"

// IndexDecisions adds the index by which the controller and PreviewScheduling read decisions.
func IndexDecisions(ctx context.Context, indexer client.FieldIndexer) error {
	if err := indexer.IndexField(ctx, &clusterv1beta1.PlacementDecision{}, indexPlacement, placementOfDecision); err != nil {
		return fmt.Errorf("indexing PlacementDecisions: %w", err)
	}
	return nil
}

func placementOfDecision(decision client.Object) []string {
	if owner, _, named := placement.ParseDecisionName(decision.GetName()); named {
		return []string{owner}
	}
	return nil
}

// SetupWithManager adds the controller to the manager.
func (c *SchedulingController) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&clusterv1beta1.Placement{}, changed).
		Watches(&clusterv1beta1.PlacementDecision{}, newModelHandler(c.observeDecision)).
		Watches(&clusterv1.ManagedCluster{}, newModelHandler(c.observeCluster)).
		Watches(&clusterv1alpha1.AddOnPlacementScore{}, newModelHandler(c.observeScores)).
		WatchesRawSource(source.Func(c.enqueueAffected)).
		Watches(&clusterv1beta2.ManagedClusterSetBinding{}, handler.EnqueueRequestsFromMapFunc(c.placementsInNamespace)).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.placementsOfSet),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: c.arrivals.newArrivalQueue}).
		Complete(conflict.RequeueConflicts(c))
}

// newModelHandler returns a handler that tells the model of each object, and enqueues Placements
// that care for sure. gone is true for an object that was deleted.
func newModelHandler(tell func(object client.Object, gone bool) []types.NamespacedName) handler.EventHandler {
	enqueue := func(q workqueue.TypedRateLimitingInterface[reconcile.Request], keys []types.NamespacedName) {
		for _, key := range keys {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, tell(e.Object, false))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, tell(e.ObjectNew, false))
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, tell(e.Object, true))
		},
	}
}

// observeCluster leaves it to enqueueAffected to find out who cares.
func (c *SchedulingController) observeCluster(object client.Object, gone bool) []types.NamespacedName {
	if gone {
		c.model.forgetCluster(object.GetName())
	} else if cluster, ok := object.(*clusterv1.ManagedCluster); ok {
		c.model.setCluster(view.FromCluster(cluster, nil))
	}
	return nil
}

// observeScores is like cluster.
func (c *SchedulingController) observeScores(object client.Object, gone bool) []types.NamespacedName {
	var scores scoreSet
	if score, ok := object.(*clusterv1alpha1.AddOnPlacementScore); ok && !gone {
		scores = view.ScoresOf(score)
	}
	c.model.setScores(object.GetNamespace(), object.GetName(), scores)
	return nil
}

// observeDecision notes what a PlacementDecision says, for Balance, and brings back its
// Placement in case somebody else has changed it.
func (c *SchedulingController) observeDecision(object client.Object, gone bool) []types.NamespacedName {
	d, ok := object.(*clusterv1beta1.PlacementDecision)
	if !ok {
		return nil
	}
	name, _, named := placement.ParseDecisionName(d.Name)
	key := client.ObjectKeyFromObject(d)
	owner := types.NamespacedName{Namespace: d.Namespace, Name: name}
	c.expectations.observeDecision(owner, d, gone)
	var news bool
	if gone {
		news = c.model.lostDecision(key)
	} else {
		says := decisionContent{fingerprint: fingerprint(d), unwritten: hasNoStatus(d)}
		for _, chosen := range d.Status.Decisions {
			says.clusters = append(says.clusters, chosen.ClusterName)
		}
		news = c.model.sawDecision(key, d.ResourceVersion, says)
	}
	if !news || !named {
		return nil // it is as we wrote it, or a user's
	}
	return []types.NamespacedName{owner}
}

// placementsInNamespace maps an object to the Placements of its namespace.
func (c *SchedulingController) placementsInNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	list := &clusterv1beta1.PlacementList{}
	if err := c.client.List(ctx, list, client.InNamespace(object.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// placementsOfSet maps a set to the Placements of the namespaces that it is bound to.
func (c *SchedulingController) placementsOfSet(ctx context.Context, set client.Object) []reconcile.Request {
	bindings := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := c.client.List(ctx, bindings, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	var requests []reconcile.Request
	for i := range bindings.Items {
		if bindings.Items[i].Spec.ClusterSet == set.GetName() {
			requests = append(requests, c.placementsInNamespace(ctx, &bindings.Items[i])...)
		}
	}
	return requests
}
