// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/order"
)

const (
	// indexPlacement finds the PlacementDecisions of a Placement in the cache.
	indexPlacement = "placement"
	// workers is how many replica sets are looked at at a time.
	workers = 8
	// gather is how long events of works are gathered: a thousand works report
	// within a few seconds, and each look sums up all of them.
	gather = 100 * time.Millisecond
)

// IndexReplicaSets adds the indexes by which the controller reads from the cache.
func IndexReplicaSets(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &workv1.ManifestWork{}, indexOwner, indexByLabel(workv1.LabelManifestWorkReplicaSet))
	if err != nil {
		return fmt.Errorf("indexing ManifestWorks: %w", err)
	}
	err = indexer.IndexField(ctx, &clusterv1beta1.PlacementDecision{}, indexPlacement, indexByLabel(clusterv1beta1.LabelPlacement))
	if err != nil {
		return fmt.Errorf("indexing PlacementDecisions: %w", err)
	}
	return nil
}

func indexByLabel(label string) client.IndexerFunc {
	return func(object client.Object) []string {
		if value := object.GetLabels()[label]; value != "" {
			return []string{value}
		}
		return nil
	}
}

// SetupWithManager adds the controller to the manager.
func (c *WorkReplicaSetController) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	if err := IndexReplicaSets(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	edited := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&workv1alpha1.ManifestWorkReplicaSet{}, edited).
		Watches(&workv1.ManifestWork{}, workHandler()).
		Watches(&clusterv1beta1.PlacementDecision{}, handler.EnqueueRequestsFromMapFunc(c.setsOfDecision)).
		Watches(&clusterv1beta1.Placement{}, handler.EnqueueRequestsFromMapFunc(c.setsOfPlacement)).
		Watches(&corev1.Namespace{}, c.namespaceHandler()).
		WithOptions(order.SharedOptions(workers, func(set reconcile.Request) string { return set.Namespace })).
		Complete(conflict.RequeueConflicts(c))
}

// workHandler brings back the replica set of a work, a moment later.
func workHandler() handler.EventHandler {
	enqueue := func(q workqueue.TypedRateLimitingInterface[reconcile.Request], work client.Object) {
		if key, ok := SetOf(work); ok {
			q.AddAfter(reconcile.Request{NamespacedName: key}, gather)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !e.IsInInitialList { // every replica set has an event of its own then
				enqueue(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if workChanged(e.ObjectOld, e.ObjectNew) {
				enqueue(q, e.ObjectOld) // someone may have removed the label
				enqueue(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(q, e.Object)
		},
	}
}

// workChanged reports whether anything of a work has changed that the cache keeps.
func workChanged(before, after client.Object) bool {
	a, isWork := before.(*workv1.ManifestWork)
	b, areWorks := after.(*workv1.ManifestWork)
	return !isWork || !areWorks || a.UID != b.UID || a.DeletionTimestamp.IsZero() != b.DeletionTimestamp.IsZero() ||
		!maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) || !slices.Equal(a.Status.Conditions, b.Status.Conditions)
}

// namespaceHandler brings back what has not been rolled out when a cluster gets its
// namespace, and the replica sets of a namespace whose works may have more or less now. A
// namespace of a cluster without the label is looked for again after a while.
func (c *WorkReplicaSetController) namespaceHandler() handler.EventHandler {
	enqueue := func(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, request := range c.requestsOfSets(ctx, "", func(set *workv1alpha1.ManifestWorkReplicaSet) bool {
			return !meta.IsStatusConditionTrue(set.Status.Conditions, workv1alpha1.ConditionPlacementRolledOut)
		}) {
			q.Add(request)
		}
	}
	of := func(namespace client.Object) string { return namespace.GetLabels()[clusterv1.LabelClusterName] }
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !e.IsInInitialList && of(e.Object) != "" {
				enqueue(ctx, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if of(e.ObjectNew) != of(e.ObjectOld) {
				enqueue(ctx, q)
			}
			const limit = fleetv1alpha1.AnnotationWorkBytesMax
			if e.ObjectNew.GetAnnotations()[limit] != e.ObjectOld.GetAnnotations()[limit] {
				for _, request := range c.requestsOfSets(ctx, e.ObjectNew.GetName(), func(*workv1alpha1.ManifestWorkReplicaSet) bool { return true }) {
					q.Add(request)
				}
			}
		},
	}
}

func (c *WorkReplicaSetController) setsOfDecision(ctx context.Context, decision client.Object) []reconcile.Request {
	return c.referringSets(ctx, decision.GetNamespace(), decision.GetLabels()[clusterv1beta1.LabelPlacement])
}

func (c *WorkReplicaSetController) setsOfPlacement(ctx context.Context, placement client.Object) []reconcile.Request {
	return c.referringSets(ctx, placement.GetNamespace(), placement.GetName())
}

// referringSets returns the replica sets that refer to a Placement.
func (c *WorkReplicaSetController) referringSets(ctx context.Context, namespace, placement string) []reconcile.Request {
	return c.requestsOfSets(ctx, namespace, func(set *workv1alpha1.ManifestWorkReplicaSet) bool {
		for _, ref := range set.Spec.PlacementRefs {
			if ref.Name == placement {
				return true
			}
		}
		return false
	})
}

// requestsOfSets returns the replica sets of a namespace, or of all, that are chosen.
func (c *WorkReplicaSetController) requestsOfSets(ctx context.Context, namespace string, chosen func(*workv1alpha1.ManifestWorkReplicaSet) bool) []reconcile.Request {
	list := &workv1alpha1.ManifestWorkReplicaSetList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if chosen(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
