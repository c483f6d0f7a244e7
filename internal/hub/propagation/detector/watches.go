// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

const (
	// workers is how many objects are looked at at a time.
	workers = 16
	// share is how many of them look at objects of one namespace.
	share = workers - 4
	// retryMin and retryMax bound how long to wait after something has failed, such as
	// that admission refuses a binding.
	retryMin = 10 * time.Millisecond
	retryMax = time.Minute
)

type queue = inbox.Queue[templates.Key]

// SetupWithManager adds the controller to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, changed *inbox.Inbox[templates.Key]) error {
	return builder.TypedControllerManagedBy[templates.Key](mgr).Named("template").
		WatchesRawSource(source.TypedFunc[templates.Key](changed.Open)).
		WatchesRawSource(source.TypedFunc[templates.Key](c.policies.Open)).
		WatchesRawSource(source.TypedFunc[templates.Key](c.ranking.Open)).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.PropagationPolicy{}), c.onPolicy())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.ClusterPropagationPolicy{}), c.onPolicy())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&workv1alpha2.ResourceBinding{}), c.onBinding())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&workv1alpha2.ClusterResourceBinding{}), c.onBinding())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.OverridePolicy{}), c.onArrival(override))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.ClusterOverridePolicy{}), c.onArrival(override))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&corev1.Namespace{}), c.onNamespace())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&schedulingv1.PriorityClass{}), c.onArrival(class))).
		WithOptions(controller.TypedOptions[templates.Key]{
			MaxConcurrentReconciles: workers, NewQueue: order.NewQueue(c.rank, order.Share[templates.Key]{Of: namespaceOf, Most: share}),
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[templates.Key](retryMin, retryMax),
		}).
		Complete(conflict.Quiet(c))
}

func namespaceOf(object templates.Key) string { return object.Name.Namespace }

type handlerOf = handler.TypedEventHandler[client.Object, templates.Key]

// onPolicy watches the kinds that policies select, and brings back the objects
// that a policy claims or may match.
func (c *Controller) onPolicy() handlerOf {
	use := func(object client.Object) {
		c.Templates.Use(user(object), selected(object)...)
		policy, ok := object.(policyv1alpha1.Policy)
		c.asking.note(user(object), ok && c.Prioritizes && policy.PropagationSpec().SchedulePriority != nil)
	}
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
			use(e.Object)
			c.policies.Note(nil, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
			use(e.ObjectNew)
			if speaksOf(e.ObjectOld, e.ObjectNew) {
				c.policies.Note(e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			c.policies.Note(e.Object, nil)
			c.Templates.Use(user(e.Object))
			c.asking.note(user(e.Object), false)
			if policy, ok := e.Object.(policyv1alpha1.Policy); ok {
				c.chooser.selections.Forget(policy)
			}
		},
	}
}

// follow brings back the objects that a policy which has changed claims or matches, or did.
func (c *Controller) follow(_ context.Context, q queue, change inbox.Change) {
	for _, object := range change.States() {
		if policy, is := object.(policyv1alpha1.Policy); is {
			c.enqueue(q, c.touched(policy))
		}
	}
	if before, is := change.Before.(policyv1alpha1.Policy); is && (change.After == nil || change.After.GetUID() != before.GetUID()) {
		c.chooser.selections.Forget(before) // it was looked at once more
	}
}

// onBinding watches the kinds that have bindings, and brings back the object of a
// binding that somebody has changed or deleted, or written for an object that is not there.
func (c *Controller) onBinding() handlerOf {
	add := func(q queue, object client.Object) {
		if b, ok := object.(workv1alpha2.Binding); ok {
			q.Add(templates.KeyOf(b.BindingSpec().Resource))
		}
	}
	use := func(before, after client.Object) {
		was, _ := before.(workv1alpha2.Binding)
		is, _ := after.(workv1alpha2.Binding)
		c.bound.note(was, is)
	}
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			use(nil, e.Object)
			if e.IsInInitialList {
				add(q, e.Object) // its object may have gone while nobody looked
				if b, ok := e.Object.(workv1alpha2.Binding); ok {
					c.Store.Decider.See(b, false) // before anything is decided
				}
			} else if c.lacksObject(e.Object) {
				add(q, e.Object) // or else nobody deletes the binding
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
				use(e.ObjectOld, e.ObjectNew)
				add(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			add(q, e.Object)
			use(e.Object, nil)
		},
	}
}

// lacksObject reports whether there is no object of a binding. Of a kind that is not listed yet, the object comes
// again when it is.
func (c *Controller) lacksObject(object client.Object) bool {
	b, is := object.(workv1alpha2.Binding)
	if !is {
		return false
	}
	template, known := c.Templates.Get(templates.KeyOf(b.BindingSpec().Resource))
	return known && template == nil
}

// speaksOf tells whether a change of a policy can matter to objects: finalizers and
// such do not.
func speaksOf(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		before.GetAnnotations()[fleetv1alpha1.AnnotationPartialPlacement] != after.GetAnnotations()[fleetv1alpha1.AnnotationPartialPlacement] ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) || !before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
}

// onArrival brings back the objects of policies that wait for an object which
// comes, as if these had changed: each policy has its turn. All objects are looked at anyway
// when the controller starts.
func (c *Controller) onArrival(value func(client.Object) string) handlerOf {
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ queue) {
			if e.IsInInitialList {
				return
			}
			waiting, err := c.chooser.waiting(ctx, value(e.Object))
			if err != nil {
				return // only a missing cache gives an error
			}
			for _, policy := range waiting {
				c.policies.NoteAgain(policy)
			}
		},
	}
}

func override(object client.Object) string {
	return overrideName(object.GetNamespace(), object.GetName())
}

func class(object client.Object) string { return className(object.GetName()) }

// touched returns the objects that a policy claims or matches.
func (c *Controller) touched(policy policyv1alpha1.Policy) []templates.Key {
	claimed := c.Templates.Claimed(claims.Of(policy).Labels)
	selectors := c.chooser.selections.Of(policy)
	matched, _ := c.Templates.Find(selectors.Scopes(), func(object *metav1.PartialObjectMetadata) bool {
		return selectors.Priority(object) != selector.None
	})
	return append(claimed, matched...)
}

func (c *Controller) enqueue(q queue, keys []templates.Key) {
	for _, key := range keys {
		q.Add(key)
	}
}

// selected returns the kinds that a policy selects, without those that are never
// sent to clusters.
func selected(object any) []schema.GroupVersionKind {
	policy, ok := object.(policyv1alpha1.Policy)
	if !ok {
		return nil
	}
	var kinds []schema.GroupVersionKind
	for _, s := range policy.PropagationSpec().ResourceSelectors {
		kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
		if reserved.Kind(kind.GroupKind()) == "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// user names a policy as one who uses kinds.
func user(policy client.Object) string {
	return "policy " + policy.GetNamespace() + "/" + policy.GetName()
}
