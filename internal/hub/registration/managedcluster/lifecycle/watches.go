// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// SetupWithManager adds the controller to the manager. What it writes itself
// does not bring it back: of the objects of an accepted cluster only changes
// and deletions do.
func (c *ClusterLifecycleController) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	for _, i := range indexes(c.writer.keepsConnections()) {
		if err := mgr.GetFieldIndexer().IndexField(ctx, i.of, i.name, i.values); err != nil {
			return fmt.Errorf("indexing %T by its %s: %w", i.of, i.name, err)
		}
	}
	works := &metav1.PartialObjectMetadata{}
	works.SetGroupVersionKind(schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork"})
	controlled := ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilesMax}).
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: clusterMatters})).
		Watches(&clusterv1.ManagedCluster{}, handler.EnqueueRequestsFromMapFunc(c.twinClusters), builder.WithPredicates(leavesFleet())).
		Watches(&corev1.Namespace{}, c.ownedObjectHandler(), builder.WithPredicates(predicate.Funcs{UpdateFunc: namespaceChanged})).
		Watches(&rbacv1.ClusterRole{}, c.ownedObjectHandler()).
		Watches(&rbacv1.ClusterRoleBinding{}, c.ownedObjectHandler()).
		Watches(&rbacv1.RoleBinding{}, c.ownedObjectHandler()).
		WatchesMetadata(works, handler.EnqueueRequestsFromMapFunc(c.clusterOfWork), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		}))
	if c.writer.keepsConnections() {
		controlled = controlled.Watches(&fleetv1alpha1.ClusterConnection{}, &handler.EnqueueRequestForObject{},
			builder.WithPredicates(c.connectionMatters(ctx)))
	}
	return controlled.Complete(conflict.RequeueConflicts(c))
}

// clusterMatters reports whether a change of a ManagedCluster is one for this
// controller: not what an agent reports, and not what we wrote ourselves.
func clusterMatters(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*clusterv1.ManagedCluster)
	after, _ := e.ObjectNew.(*clusterv1.ManagedCluster)
	if before == nil || after == nil || !after.DeletionTimestamp.IsZero() {
		return true
	}
	wanted := after.Spec.HubAcceptsClient
	released := wanted && !controllerutil.ContainsFinalizer(after, clusterv1.FinalizerAPIResourceCleanup)
	// A condition that says something else than the spec is news when it appears:
	// until the first one we are at work already, or wait for something else.
	spoiled := saysAccepted(before) != saysAccepted(after) && saysAccepted(after) != wanted
	agents := before.Annotations[clusterv1.AnnotationAgents] != after.Annotations[clusterv1.AnnotationAgents]
	return before.Spec.HubAcceptsClient != wanted || released || spoiled || agents || wanted && !sameLimits(before, after)
}

func saysAccepted(mc *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
}

func namespaceChanged(e event.UpdateEvent) bool {
	return e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero() ||
		!maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
}

// ownedObjectHandler enqueues the cluster of an object of ours. An object that appeared
// is news only if it is not what an accepted cluster gets.
func (c *ClusterLifecycleController) ownedObjectHandler() handler.EventHandler {
	enqueue := func(ctx context.Context, obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if request, ok := c.clusterByLabel(ctx, obj); ok {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if c.isUnexpected(ctx, e.Object) {
				enqueue(ctx, e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(ctx, e.Object, q)
		},
	}
}

// isUnexpected reports whether an object that appeared is anything but what an
// accepted cluster gets.
func (c *ClusterLifecycleController) isUnexpected(ctx context.Context, obj client.Object) bool {
	key := types.NamespacedName{Name: obj.GetLabels()[clusterv1.LabelClusterName]}
	if key.Name == "" {
		return false // a shared role
	}
	mc := &clusterv1.ManagedCluster{}
	if err := c.Client.Get(ctx, key, mc); err != nil {
		return true
	}
	accepted := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	return !mc.Spec.HubAcceptsClient || !mc.DeletionTimestamp.IsZero() ||
		accepted != nil && accepted.Status != metav1.ConditionTrue
}

// clusterByLabel maps an object to its cluster, and a shared role to one cluster that
// needs it.
func (c *ClusterLifecycleController) clusterByLabel(ctx context.Context, obj client.Object) (reconcile.Request, bool) {
	if name := obj.GetLabels()[clusterv1.LabelClusterName]; name != "" {
		return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, true
	}
	clusters := &clusterv1.ManagedClusterList{}
	if err := c.Client.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Request{}, false // only a missing cache gives an error
	}
	for i := range clusters.Items {
		if mc := &clusters.Items[i]; mc.Spec.HubAcceptsClient && mc.DeletionTimestamp.IsZero() {
			return reconcile.Request{NamespacedName: types.NamespacedName{Name: mc.Name}}, true
		}
	}
	return reconcile.Request{}, false
}

// clusterOfWork maps a work that is gone to its cluster, if that waits for it.
func (c *ClusterLifecycleController) clusterOfWork(ctx context.Context, obj client.Object) []reconcile.Request {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: obj.GetNamespace()}}
	mc := &clusterv1.ManagedCluster{}
	if err := c.Client.Get(ctx, request.NamespacedName, mc); err == nil && mc.DeletionTimestamp.IsZero() {
		namespace := &corev1.Namespace{}
		if err := c.Client.Get(ctx, request.NamespacedName, namespace); err == nil && namespace.DeletionTimestamp.IsZero() {
			return nil
		}
	}
	return []reconcile.Request{request}
}
