// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dependencies

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/propagation/references"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

const (
	// workers is how many bindings, and how many objects, are looked at at a time.
	workers = 8
	// indexRefers finds the bindings whose objects need an object, by references.ReferenceKey.
	indexRefers = "refers-to"
	// indexNeeded finds the bindings whose objects are needed for that of another, by
	// the label that says so. It finds those with more than neededMax such labels by
	// neededByMany: each value takes many times the label, of which a binding has room for
	// tens of thousands.
	indexNeeded  = "needed-by"
	neededMax    = 256
	neededByMany = "many"
)

// IndexReferences adds the indexes by which the controllers read bindings.
func IndexReferences(ctx context.Context, indexer client.FieldIndexer) error {
	refers := func(object client.Object) []string {
		b, ok := object.(workv1alpha2.Binding)
		if !ok {
			return nil
		}
		all, err := references.BindingReferences(b)
		if err != nil {
			return nil // Referrers writes it anew
		}
		keys := make([]string, 0, len(all))
		for _, reference := range all {
			keys = append(keys, reference.ReferenceKey())
		}
		return keys
	}
	for name, values := range map[string]client.IndexerFunc{indexRefers: refers, indexNeeded: neededByLabels} {
		if err := indexer.IndexField(ctx, &workv1alpha2.ResourceBinding{}, name, values); err != nil {
			return fmt.Errorf("indexing ResourceBindings by %s: %w", name, err)
		}
	}
	return nil
}

// neededByLabels returns the values by which indexNeeded finds a binding.
func neededByLabels(object client.Object) []string {
	var keys []string
	for key := range object.GetLabels() {
		if !strings.HasPrefix(key, workv1alpha2.LabelDependedByPrefix) {
			continue
		}
		if len(keys) == neededMax {
			return []string{neededByMany}
		}
		keys = append(keys, key)
	}
	return keys
}

// SetupWithManager adds the controller to the manager. Changed has bindings
// whose objects have.
func (r *ReferrerController) SetupWithManager(mgr ctrl.Manager, changed *inbox.Inbox[reconcile.Request]) error {
	written := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, lookup.FinalizerRemoved()))
	return ctrl.NewControllerManagedBy(mgr).Named("referrer").
		Watches(&workv1alpha2.ResourceBinding{}, &handler.EnqueueRequestForObject{}, written).
		WatchesRawSource(source.Func(changed.ForwardKeys)).
		WithOptions(order.SharedOptions(workers, func(binding reconcile.Request) string { return binding.Namespace })).
		Complete(conflict.RequeueConflicts(r))
}

// SetupWithManager adds the controller to the manager. Changed has objects
// that have.
func (a *AttachedController) SetupWithManager(mgr ctrl.Manager, changed *inbox.Inbox[templates.Key]) error {
	return builder.TypedControllerManagedBy[templates.Key](mgr).Named("attached").
		WatchesRawSource(source.TypedFunc[templates.Key](changed.ForwardKeys)).
		WatchesRawSource(source.TypedFunc[templates.Key](a.changes.ForwardChanges)).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&workv1alpha2.ResourceBinding{}), a.onBinding())).
		WithOptions(order.SharedOptions(workers, func(object templates.Key) string { return object.Name.Namespace })).
		Complete(conflict.RequeueConflicts(a))
}

// onBinding brings back what the object of a binding needs, or needed, when the cache shows
// that: whoever is told sooner may find what was needed before. It brings back, too, the
// object of a binding that somebody has changed or deleted although others need the object.
func (a *AttachedController) onBinding() handler.TypedEventHandler[client.Object, templates.Key] {
	own := func(q inbox.Queue[templates.Key], object client.Object) {
		if b, ok := object.(workv1alpha2.Binding); ok && (references.Attached(b) || b.BindingSpec().Placement == nil) {
			q.Add(templates.KeyOf(b.BindingSpec().Resource))
		}
	}
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q inbox.Queue[templates.Key]) {
			a.changes.AddChange(nil, e.Object)
			own(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q inbox.Queue[templates.Key]) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) {
				a.changes.AddChange(e.ObjectOld, e.ObjectNew)
			}
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				own(q, e.ObjectOld) // somebody may have taken the labels off
				own(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q inbox.Queue[templates.Key]) {
			a.changes.AddChange(e.Object, nil)
			if b, ok := e.Object.(workv1alpha2.Binding); ok { // somebody may need another object of the name
				q.Add(templates.KeyOf(b.BindingSpec().Resource))
			}
		},
	}
}

// enqueueNeeded brings back what the object of a binding that has changed needs, or needed.
func (a *AttachedController) enqueueNeeded(_ context.Context, q inbox.Queue[templates.Key], change inbox.Change) {
	for _, object := range change.States() {
		b, is := object.(workv1alpha2.Binding)
		if !is {
			continue
		}
		for _, key := range a.neededObjects(b) {
			q.Add(key)
		}
	}
}

// neededObjects returns the objects that there are of those that a binding says it needs. Many
// selectors may select the same, which is compared with all of them in one pass.
func (a *AttachedController) neededObjects(b workv1alpha2.Binding) []templates.Key {
	all, err := references.BindingReferences(b)
	if err != nil {
		return nil // Referrers writes it anew
	}
	scopes := map[selector.SearchScope]bool{}
	matchers := map[schema.GroupVersionKind][]func(metav1.Object) bool{}
	for _, reference := range all {
		kind := reference.GroupVersionKind()
		scopes[selector.SearchScope{Kind: kind, Namespace: reference.Namespace, Name: reference.Name}] = true
		matchers[kind] = append(matchers[kind], reference.ObjectMatcher())
	}
	found, _ := a.Templates.Find(slices.Collect(maps.Keys(scopes)), func(object *metav1.PartialObjectMetadata) bool {
		return slices.ContainsFunc(matchers[object.GroupVersionKind()], func(is func(metav1.Object) bool) bool { return is(object) })
	})
	return found
}
