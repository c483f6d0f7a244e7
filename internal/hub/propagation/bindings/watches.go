// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

const (
	// workers is how many bindings are looked at at a time.
	workers = 16
	// share is how many of them look at bindings of one namespace: those of a tenant may
	// take long, as what overrides change is made anew for each cluster.
	share = workers - 4
	// settle is how long what happens to the works of a binding is awaited before it
	// is summed up.
	settle = 100 * time.Millisecond
	// again is how soon to try again what the hub has refused.
	again  = 15 * time.Second
	action = "Propagate"
)

type bindingQueue = inbox.Queue[reconcile.Request]

// SetupWithManager adds the controller to the manager. Touched has bindings whose
// objects have changed.
func (c *BindingController) SetupWithManager(mgr ctrl.Manager, touched *inbox.Inbox[reconcile.Request]) error {
	clusters := clusterWatch{BindingControllerDeps: c.BindingControllerDeps, stakes: c.stakes, hearing: fleet.NewClusterThrottle(c.Clock), news: newClusterNews()}
	return ctrl.NewControllerManagedBy(mgr).Named("binding").
		Watches(&workv1alpha2.ResourceBinding{}, c.onBinding()).
		Watches(&workv1alpha2.ClusterResourceBinding{}, c.onBinding()).
		Watches(&workv1.ManifestWork{}, c.onWork()).
		Watches(&clusterv1.ManagedCluster{}, clusters.clusterHandler(clusters.observeCluster)).
		Watches(&fleetv1alpha1.ClusterConnection{}, clusters.clusterHandler(clusters.observeConnection)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(bindingsOfNamespace(c.Client)), builder.WithPredicates(limitChanged())).
		Watches(&policyv1alpha1.OverridePolicy{}, c.onOverride(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&policyv1alpha1.ClusterOverridePolicy{}, c.onOverride(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Func(touched.ForwardKeys)).
		WatchesRawSource(source.Func(c.policies.ForwardChanges)).
		WatchesRawSource(source.Func(clusters.openNews)).
		WatchesRawSource(source.Func(c.enqueueMissing)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers, NewQueue: order.NewQueue(c.ranks.RankOf, order.Share[reconcile.Request]{Of: namespaceOf, Most: share})}).
		Complete(conflict.RequeueConflicts(c))
}

func namespaceOf(binding reconcile.Request) string { return binding.Namespace }

// limitChanged is about what the works of the bindings of a namespace may have.
func limitChanged() predicate.Predicate {
	never := func(event.CreateEvent) bool { return false }
	return predicate.Funcs{CreateFunc: never, UpdateFunc: func(e event.UpdateEvent) bool {
		const key = fleetv1alpha1.AnnotationWorkBytesMax
		return e.ObjectOld.GetAnnotations()[key] != e.ObjectNew.GetAnnotations()[key]
	}}
}

// bindingsOfNamespace returns what finds the bindings of a namespace.
func bindingsOfNamespace(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, namespace client.Object) (all []reconcile.Request) {
		list := &workv1alpha2.ResourceBindingList{}
		if err := cached.List(ctx, list, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			return nil // those that wait come again by themselves
		}
		for i := range list.Items {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
		return all
	}
}

// onBinding brings back a binding of which more has changed than the status, and
// notes how important it is and what is at stake for it.
func (c *BindingController) onBinding() handler.EventHandler {
	changed := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}, lookup.FinalizerRemoved())
	see := func(q bindingQueue, object client.Object, gone bool) {
		if gone {
			c.Written.ObserveGone(object)
		} else {
			c.Written.ObserveCached(object)
		}
		if b, ok := object.(binding); ok {
			for _, name := range c.Store.Decider.ObserveBinding(b, gone) {
				q.Add(reconcile.Request{NamespacedName: name})
			}
		}
	}
	note := func(object client.Object) reconcile.Request {
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
		c.ranks.SetRank(request, c.bindingPriority(object))
		if b, ok := object.(binding); ok {
			c.stakes.Set(b)
		}
		return request
	}
	freed := func(q bindingQueue, object client.Object) {
		for key, wait := range c.Store.Decider.FreedBindings(object.GetNamespace()) {
			q.AddAfter(reconcile.Request{NamespacedName: key}, wait)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q bindingQueue) {
			see(q, e.Object, false)
			q.Add(note(e.Object))
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q bindingQueue) {
			see(q, e.ObjectNew, false)
			if request := note(e.ObjectNew); changed.Update(e) {
				q.Add(request)
			}
			if targetsMoved(e.ObjectOld, e.ObjectNew) {
				freed(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q bindingQueue) {
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
			c.ranks.SetRank(request, 0)
			c.stakes.ForgetBinding(request.NamespacedName)
			c.Store.Decider.ForgetBinding(request.NamespacedName)
			see(q, e.Object, true)
			q.Add(request)
			freed(q, e.Object)
		},
	}
}

// bindingPriority returns how important a binding is.
func (c *BindingController) bindingPriority(object client.Object) int32 {
	b, ok := object.(workv1alpha2.Binding)
	if !ok || !c.Prioritizes || b.BindingSpec().SchedulePriority == nil {
		return 0
	}
	return b.BindingSpec().SchedulePriority.Priority
}

// onWork brings back the binding of a work, a moment later: the works of a binding
// are written, and answered, at about the same time.
func (c *BindingController) onWork() handler.EventHandler {
	add := func(q bindingQueue, object client.Object) {
		if name := deliver.BindingOf(object); name.Name != "" {
			q.AddAfter(reconcile.Request{NamespacedName: name}, settle)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q bindingQueue) {
			c.Created.ForgetWork(client.ObjectKeyFromObject(e.Object))
			if !e.IsInInitialList { // all bindings are looked at then
				add(q, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q bindingQueue) {
			if workChangeMatters(e.ObjectOld, e.ObjectNew) {
				add(q, e.ObjectNew)
				add(q, e.ObjectOld) // its member may have taken the name of the binding off
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q bindingQueue) {
			c.Created.ForgetWork(client.ObjectKeyFromObject(e.Object))
			c.Restless.ObserveDeleted(e.Object)
			add(q, e.Object)
		},
	}
}

// enqueueMissing has bindings looked at that works name and that do not exist. It is for
// the start: after that, works and bindings that go tell of it.
func (c *BindingController) enqueueMissing(ctx context.Context, q bindingQueue) error {
	own := &workv1alpha2.ResourceBindingList{}
	wide := &workv1alpha2.ClusterResourceBindingList{}
	works := &workv1.ManifestWorkList{}
	found := map[types.NamespacedName]bool{{}: true}
	for _, list := range []client.ObjectList{works, own, wide} {
		if err := c.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	for i := range own.Items {
		found[client.ObjectKeyFromObject(&own.Items[i])] = true
	}
	for i := range wide.Items {
		found[client.ObjectKeyFromObject(&wide.Items[i])] = true
	}
	for i := range works.Items {
		if name := deliver.BindingOf(&works.Items[i]); !found[name] {
			q.Add(reconcile.Request{NamespacedName: name})
		}
	}
	return nil
}

// workChangeMatters reports whether a change of a work, of which the cache keeps what is read,
// can matter to its binding.
func workChangeMatters(before, after client.Object) bool {
	was, ok := before.(*workv1.ManifestWork)
	is, also := after.(*workv1.ManifestWork)
	if !ok || !also {
		return true
	}
	was, is = was.DeepCopy(), is.DeepCopy()
	was.ResourceVersion = ""
	is.ResourceVersion = ""
	return !equality.Semantic.DeepEqual(was, is)
}

// targetsMoved reports whether the object of a binding goes to other clusters, or takes
// another share there.
func targetsMoved(before, after client.Object) bool {
	was := before.(binding)
	is := after.(binding) //nolint:forcetypeassert // they are watched
	return !equality.Semantic.DeepEqual(was.BindingSpec().Clusters, is.BindingSpec().Clusters)
}
