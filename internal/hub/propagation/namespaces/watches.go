// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

const (
	// workers is how many namespaces are looked at at a time.
	workers = 4
	// IndexNamespace finds the works of a namespace in the cache.
	IndexNamespace = "of-namespace"
	// awaitOthers is how long it is awaited that more bindings leave a cluster.
	awaitOthers = time.Second
)

type namespaceQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// IndexNamespaceWorks adds the index by which the controller reads works.
func IndexNamespaceWorks(ctx context.Context, indexer client.FieldIndexer) error {
	byNamespace := func(object client.Object) []string {
		if name := deliver.OfNamespace(object); name != "" {
			return []string{name}
		}
		return nil
	}
	if err := indexer.IndexField(ctx, &workv1.ManifestWork{}, IndexNamespace, byNamespace); err != nil {
		return fmt.Errorf("indexing ManifestWorks: %w", err)
	}
	return nil
}

// SetupWithManager adds the controller to the manager.
func (c *NamespaceController) SetupWithManager(mgr ctrl.Manager) error {
	specs := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).Named("namespace").
		Watches(&corev1.Namespace{}, &handler.EnqueueRequestForObject{}).
		Watches(&workv1alpha2.ResourceBinding{}, c.onBinding(), specs).
		Watches(&workv1alpha2.ClusterResourceBinding{}, handler.EnqueueRequestsFromMapFunc(onWideBinding), specs).
		Watches(&workv1.ManifestWork{}, c.onWork(), builder.WithPredicates(
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&clusterv1.ManagedCluster{}, c.onCluster()).
		Watches(&fleetv1alpha1.ClusterConnection{}, c.onCluster()).
		Watches(&policyv1alpha1.ClusterOverridePolicy{}, handler.EnqueueRequestsFromMapFunc(c.onPolicy), specs).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(conflict.RequeueConflicts(c))
}

// onBinding brings back the namespace of a binding that sends its object to a
// cluster which does not have the namespace. One that a cluster may not need any
// more can wait: many bindings go at about the same time, and a look at a namespace
// is one at all of its bindings.
func (c *NamespaceController) onBinding() handler.EventHandler {
	reaches := func(ctx context.Context, q namespaceQueue, object client.Object) {
		if b, ok := object.(workv1alpha2.Binding); ok && c.lacksNamespace(ctx, b) {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: b.GetNamespace()}})
		}
	}
	left := func(q namespaceQueue, object client.Object) {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: object.GetNamespace()}}, awaitOthers)
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q namespaceQueue) { reaches(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q namespaceQueue) {
			reaches(ctx, q, e.ObjectNew)
			if !equality.Semantic.DeepEqual(bindingTargets(e.ObjectOld), bindingTargets(e.ObjectNew)) {
				left(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q namespaceQueue) { left(q, e.Object) },
	}
}

// lacksNamespace reports whether the cache does not show the namespace of a binding in a
// cluster that its object is sent to.
func (c *NamespaceController) lacksNamespace(ctx context.Context, b workv1alpha2.Binding) bool {
	name := deliver.NamespaceWorkName(b.GetNamespace())
	return slices.ContainsFunc(deliver.BindingTargets(b.BindingSpec()), func(target workv1alpha2.TargetCluster) bool {
		return c.Client.Get(ctx, types.NamespacedName{Namespace: target.Name, Name: name}, &workv1.ManifestWork{}, client.UnsafeDisableDeepCopy) != nil
	})
}

// bindingTargets returns the clusters that a binding sends its object to.
func bindingTargets(object client.Object) []workv1alpha2.TargetCluster {
	if b, ok := object.(workv1alpha2.Binding); ok {
		return deliver.BindingTargets(b.BindingSpec())
	}
	return nil
}

// onWideBinding is about the bindings of namespaces.
func onWideBinding(_ context.Context, object client.Object) []reconcile.Request {
	if b, ok := object.(*workv1alpha2.ClusterResourceBinding); ok {
		return namespaceRequests(namespaceOfBinding(b))
	}
	return nil
}

// namespaceOfBinding returns the name of the namespace that a binding is for, "" if it is
// for something else.
func namespaceOfBinding(b *workv1alpha2.ClusterResourceBinding) string {
	of := b.Spec.Resource
	if of.APIVersion != corev1.SchemeGroupVersion.String() || of.Kind != "Namespace" {
		return ""
	}
	return of.Name
}

// onWork brings back the namespace of a work: at once when the hub has written something else into it, or deletes it. What
// others change, such as an agent, which may do so without end, is mended now and then, and after all else: a look at a namespace is
// one at all of its clusters.
func (c *NamespaceController) onWork() handler.EventHandler {
	changed := func(q namespaceQueue, object client.Object) {
		for _, request := range namespaceRequests(deliver.OfNamespace(object)) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q namespaceQueue) { changed(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q namespaceQueue) {
			if !changedByOthers(e.ObjectOld, e.ObjectNew) {
				changed(q, e.ObjectOld)
				changed(q, e.ObjectNew)
				return
			}
			for _, request := range namespaceRequests(deliver.OfNamespace(e.ObjectNew)) {
				order.AddLater(q, request, c.hearing.WorkDelay(e.ObjectNew.GetNamespace()))
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q namespaceQueue) { changed(q, e.Object) },
	}
}

// changedByOthers reports whether all that is different in a work is what agents may change, too.
func changedByOthers(before, after client.Object) bool {
	return deliver.WrittenAlike(before, after) && maps.Equal(before.GetLabels(), after.GetLabels()) &&
		before.GetDeletionTimestamp().IsZero() == after.GetDeletionTimestamp().IsZero()
}

// onCluster brings back the namespaces of a cluster: at once when it is sent something now that was not before, or
// the other way round. What a policy about namespaces may select it by can be the word of its agent, which may say
// something else as often as it likes: that is heard now and then, and after all else that brings namespaces back.
func (c *NamespaceController) onCluster() handler.EventHandler {
	changed := func(ctx context.Context, q namespaceQueue, object client.Object) {
		c.hearing.ChangeDelay(object.GetName(), nil, nil)
		for _, request := range c.namespacesOfCluster(ctx, object) {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q namespaceQueue) { changed(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q namespaceQueue) {
			if !sameStanding(lookAt(e.ObjectOld, view.IdentityFromCluster), lookAt(e.ObjectNew, view.IdentityFromCluster)) {
				changed(ctx, q, e.ObjectNew)
				return
			}
			if !c.overridesNamespaces(ctx) {
				return
			}
			was := lookAt(e.ObjectOld, view.FromCluster)
			is := lookAt(e.ObjectNew, view.FromCluster)
			if samePlace(was, is) {
				return
			}
			wait := c.hearing.ChangeDelay(is.Name, &was, &is)
			for _, request := range c.namespacesOfCluster(ctx, e.ObjectNew) {
				order.AddLater(q, request, wait)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q namespaceQueue) { changed(ctx, q, e.Object) },
	}
}

// namespacesOfCluster returns the namespaces that a cluster has, or is to have, and the one that is its own on
// the hub.
func (c *NamespaceController) namespacesOfCluster(ctx context.Context, object client.Object) []reconcile.Request {
	if c.Everywhere {
		return c.allNamespaces(ctx)
	}
	works := &workv1.ManifestWorkList{}
	if err := c.Client.List(ctx, works, client.InNamespace(object.GetName()), client.HasLabels{deliver.LabelNamespace}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	names := []string{object.GetName()}
	for i := range works.Items {
		names = append(names, deliver.OfNamespace(&works.Items[i]))
	}
	return namespaceRequests(names...)
}

// onPolicy brings back all namespaces if a policy is about namespaces.
func (c *NamespaceController) onPolicy(ctx context.Context, object client.Object) []reconcile.Request {
	if policy, ok := object.(*policyv1alpha1.ClusterOverridePolicy); !ok || !isAboutNamespaces(policy.Spec.ResourceSelectors) {
		return nil
	}
	return c.allNamespaces(ctx)
}

// overridesNamespaces reports whether there is a policy that is about namespaces. When one comes, it brings all
// of them back.
func (c *NamespaceController) overridesNamespaces(ctx context.Context) bool {
	policies := &policyv1alpha1.ClusterOverridePolicyList{}
	if err := c.Client.List(ctx, policies, client.UnsafeDisableDeepCopy); err != nil {
		return true // only a missing cache gives an error
	}
	return slices.ContainsFunc(policies.Items, func(p policyv1alpha1.ClusterOverridePolicy) bool { return isAboutNamespaces(p.Spec.ResourceSelectors) })
}

// isAboutNamespaces reports whether the selectors of an override policy select namespaces; none select everything.
func isAboutNamespaces(selectors []policyv1alpha1.ResourceSelector) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(s policyv1alpha1.ResourceSelector) bool {
		return s.APIVersion == corev1.SchemeGroupVersion.String() && s.Kind == "Namespace"
	})
}

// allNamespaces returns all namespaces of the hub.
func (c *NamespaceController) allNamespaces(ctx context.Context) []reconcile.Request {
	namespaces := &corev1.NamespaceList{}
	if err := c.Client.List(ctx, namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	var names []string
	for i := range namespaces.Items {
		names = append(names, namespaces.Items[i].Name)
	}
	return namespaceRequests(names...)
}

func namespaceRequests(names ...string) []reconcile.Request {
	var all []reconcile.Request
	for _, name := range names {
		if name != "" {
			all = append(all, reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
	}
	return all
}

// sameStanding reports whether a cluster may be sent as much as before, and has the namespace of its name as before.
func sameStanding(was, is view.Cluster) bool {
	return was.Accepted == is.Accepted && was.OwnsNamespace() == is.OwnsNamespace() && was.Deleting == is.Deleting
}

// samePlace reports whether policies that override namespaces select a cluster as before.
func samePlace(was, is view.Cluster) bool {
	return was.Region == is.Region && was.Provider == is.Provider && slices.Equal(was.Zones, is.Zones) && maps.Equal(was.Labels, is.Labels)
}

// lookAt returns what one of the objects of a cluster says of it.
func lookAt(object client.Object, look clusterLook) view.Cluster {
	switch o := object.(type) {
	case *clusterv1.ManagedCluster:
		return look(o, nil)
	case *fleetv1alpha1.ClusterConnection:
		return look(nil, o)
	default:
		return view.Cluster{}
	}
}
