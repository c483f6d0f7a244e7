// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/conflict"
	"github.com/capstan-io/capstan/internal/fleet/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/order"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

const (
	// workers is how many bindings are looked at at a time.
	workers = 16
	// settle is how long what happens to the works of a binding is awaited before it
	// is summed up.
	settle = 100 * time.Millisecond
	// again is how soon to try again what the hub has refused.
	again = 15 * time.Second
	// IndexBinding finds the works of a binding in the cache.
	IndexBinding = "binding-id"
	action       = "Propagate"
)

// Index adds the index by which the controller reads works.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	byBinding := func(object client.Object) []string {
		if work, ok := object.(*workv1.ManifestWork); ok {
			if id := deliver.BindingID(work); id != "" {
				return []string{id}
			}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &workv1.ManifestWork{}, IndexBinding, byBinding); err != nil {
		return fmt.Errorf("indexing ManifestWorks: %w", err)
	}
	return nil
}

type queue = inbox.Queue[reconcile.Request]

// SetupWithManager adds the controller to the manager. Touched has bindings whose
// objects have changed.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, touched *inbox.Inbox[reconcile.Request]) error {
	changed := builder.WithPredicates(predicate.Or(
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))
	return ctrl.NewControllerManagedBy(mgr).Named("binding").
		Watches(&workv1alpha2.ResourceBinding{}, c.onBinding(), changed).
		Watches(&workv1alpha2.ClusterResourceBinding{}, c.onBinding(), changed).
		Watches(&workv1.ManifestWork{}, c.onWork()).
		Watches(&clusterv1.ManagedCluster{}, c.feed(c.cluster)).
		Watches(&fleetv1alpha1.ClusterConnection{}, c.feed(c.connection)).
		Watches(&policyv1alpha1.OverridePolicy{}, handler.EnqueueRequestsFromMapFunc(c.overridden)).
		Watches(&policyv1alpha1.ClusterOverridePolicy{}, handler.EnqueueRequestsFromMapFunc(c.overridden)).
		WatchesRawSource(source.Func(touched.Open)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: order.NewQueue(c.ranks.Of)}).
		Complete(conflict.Quiet(c))
}

// onBinding notes how important a binding is, and looks at it.
func (c *Controller) onBinding() handler.EventHandler {
	look := func(q queue, object client.Object, rank int32) {
		key := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
		c.ranks.Set(key, rank)
		q.Add(key)
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { look(q, e.Object, c.rank(e.Object)) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { look(q, e.ObjectNew, c.rank(e.ObjectNew)) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { look(q, e.Object, 0) },
	}
}

// rank returns how important a binding is.
func (c *Controller) rank(object client.Object) int32 {
	b, ok := object.(workv1alpha2.Binding)
	if !ok || !c.Prioritizes || b.BindingSpec().SchedulePriority == nil {
		return 0
	}
	return b.BindingSpec().SchedulePriority.Priority
}

// onWork brings back the binding of a work, a moment later: the works of a binding
// are written, and answered, at about the same time.
func (c *Controller) onWork() handler.EventHandler {
	add := func(q queue, object client.Object) {
		if name := bindingOf(object); name.Name != "" {
			q.AddAfter(reconcile.Request{NamespacedName: name}, settle)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList { // all bindings are looked at then
				add(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(q, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			c.Created.Forget(client.ObjectKeyFromObject(e.Object))
			add(q, e.Object)
		},
	}
}

// bindingOf returns the name of the binding of a work.
func bindingOf(work client.Object) types.NamespacedName {
	annotations := work.GetAnnotations()
	if name := annotations[workv1alpha2.AnnotationClusterResourceBindingName]; name != "" {
		return types.NamespacedName{Name: name}
	}
	return types.NamespacedName{
		Namespace: annotations[workv1alpha2.AnnotationResourceBindingNamespace], Name: annotations[workv1alpha2.AnnotationResourceBindingName],
	}
}

// feed tells the fleet of each object, and brings back the bindings that can
// care. gone is true for an object that was deleted.
func (c *Controller) feed(tell func(object client.Object, gone bool) (before, after *view.Cluster)) handler.EventHandler {
	take := func(ctx context.Context, q queue, object client.Object, gone bool) {
		before, after := tell(object, gone)
		for _, key := range c.affected(ctx, before, after) {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if e.IsInInitialList { // all bindings are looked at then
				tell(e.Object, false)
				return
			}
			take(ctx, q, e.Object, false)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { take(ctx, q, e.ObjectNew, false) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { take(ctx, q, e.Object, true) },
	}
}

func (c *Controller) cluster(object client.Object, gone bool) (before, after *view.Cluster) {
	cluster, ok := object.(*clusterv1.ManagedCluster)
	if !ok || gone {
		cluster = nil
	}
	return c.Fleet.SetCluster(object.GetName(), cluster)
}

func (c *Controller) connection(object client.Object, gone bool) (before, after *view.Cluster) {
	connection, ok := object.(*fleetv1alpha1.ClusterConnection)
	if !ok || gone {
		connection = nil
	}
	return c.Fleet.SetConnection(object.GetName(), connection)
}

// affected returns the bindings that a change of a cluster can matter to: to what
// is decided, or to what is known of the object there.
func (c *Controller) affected(ctx context.Context, before, after *view.Cluster) []types.NamespacedName {
	if before != nil && after != nil && view.Alike(*before, *after) {
		return nil
	}
	heard := before == nil || after == nil || before.Available != after.Available
	var keys []types.NamespacedName
	for _, b := range c.all(ctx) {
		if c.Decider.Affected(b, before, after) || heard && targets(b, before, after) {
			keys = append(keys, types.NamespacedName{Namespace: b.GetNamespace(), Name: b.GetName()})
		}
	}
	return keys
}

// targets tells whether the object of a binding is sent to the cluster.
func targets(b workv1alpha2.Binding, before, after *view.Cluster) bool {
	return slices.ContainsFunc(deliver.Targets(b.BindingSpec()), func(target workv1alpha2.TargetCluster) bool {
		return before != nil && before.Name == target.Name || after != nil && after.Name == target.Name
	})
}

// all returns all bindings, which must not be changed.
func (c *Controller) all(ctx context.Context) []workv1alpha2.Binding {
	own, wide := &workv1alpha2.ResourceBindingList{}, &workv1alpha2.ClusterResourceBindingList{}
	for _, list := range []client.ObjectList{own, wide} {
		if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil // only a missing cache gives an error
		}
	}
	all := make([]workv1alpha2.Binding, 0, len(own.Items)+len(wide.Items))
	for i := range own.Items {
		all = append(all, &own.Items[i])
	}
	for i := range wide.Items {
		all = append(all, &wide.Items[i])
	}
	return all
}

// overridden maps an override policy to the bindings whose objects it may change,
// or has changed.
func (c *Controller) overridden(ctx context.Context, policy client.Object) []reconcile.Request {
	var selectors []policyv1alpha1.ResourceSelector
	switch p := policy.(type) {
	case *policyv1alpha1.OverridePolicy:
		selectors = p.Spec.ResourceSelectors
	case *policyv1alpha1.ClusterOverridePolicy:
		selectors = p.Spec.ResourceSelectors
	}
	var requests []reconcile.Request
	for _, b := range c.all(ctx) {
		if (policy.GetNamespace() == "" || policy.GetNamespace() == b.GetNamespace()) && ofKind(selectors, b.BindingSpec().Resource) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: b.GetNamespace(), Name: b.GetName()}})
		}
	}
	return requests
}

// ofKind tells whether a selector is for the kind of the object; none is for all.
func ofKind(selectors []policyv1alpha1.ResourceSelector, object workv1alpha2.ObjectReference) bool {
	for _, s := range selectors {
		if s.APIVersion == object.APIVersion && s.Kind == object.Kind {
			return true
		}
	}
	return len(selectors) == 0
}
