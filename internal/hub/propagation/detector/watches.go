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

type templateQueue = inbox.Queue[templates.Key]

// SetupWithManager adds the controller to the manager.
func (c *DetectionController) SetupWithManager(mgr ctrl.Manager, changed *inbox.Inbox[templates.Key]) error {
	return builder.TypedControllerManagedBy[templates.Key](mgr).Named("template").
		WatchesRawSource(source.TypedFunc[templates.Key](changed.ForwardKeys)).
		WatchesRawSource(source.TypedFunc[templates.Key](c.policies.ForwardChanges)).
		WatchesRawSource(source.TypedFunc[templates.Key](c.ranking.Open)).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.PropagationPolicy{}), c.onPolicy())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.ClusterPropagationPolicy{}), c.onPolicy())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&workv1alpha2.ResourceBinding{}), c.onBinding())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&workv1alpha2.ClusterResourceBinding{}), c.onBinding())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.OverridePolicy{}), c.onArrival(overrideIndexKey))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.ClusterOverridePolicy{}), c.onArrival(overrideIndexKey))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&corev1.Namespace{}), c.onNamespace())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&schedulingv1.PriorityClass{}), c.onArrival(classIndexKey))).
		WithOptions(controller.TypedOptions[templates.Key]{
			MaxConcurrentReconciles: workers, NewQueue: order.NewQueue(c.objectPriority, order.Share[templates.Key]{Of: namespaceOf, Most: share}),
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[templates.Key](retryMin, retryMax),
		}).
		Complete(conflict.RequeueConflicts(c))
}

func namespaceOf(object templates.Key) string { return object.Name.Namespace }

type templateHandler = handler.TypedEventHandler[client.Object, templates.Key]

// onPolicy watches the kinds that policies select, and brings back the objects
// that a policy claims or may match.
func (c *DetectionController) onPolicy() templateHandler {
	use := func(object client.Object) {
		policy, ok := object.(policyv1alpha1.Policy)
		if !ok {
			return
		}
		c.Templates.UseKinds(policyUser(policy), claims.SentKinds(policy)...)
		c.asking.setPriority(policyUser(policy), c.Prioritizes && policy.PropagationSpec().SchedulePriority != nil)
	}
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ templateQueue) {
			use(e.Object)
			c.policies.AddChange(nil, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ templateQueue) {
			use(e.ObjectNew)
			if policyChangeMatters(e.ObjectOld, e.ObjectNew) {
				c.policies.AddChange(e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ templateQueue) {
			c.policies.AddChange(e.Object, nil)
			c.Templates.UseKinds(policyUser(e.Object))
			c.asking.setPriority(policyUser(e.Object), false)
			if policy, ok := e.Object.(policyv1alpha1.Policy); ok {
				c.chooser.selections.ForgetPolicy(policy)
			}
		},
	}
}

// enqueuePolicyObjects brings back the objects that a policy which has changed claims or matches, or did.
func (c *DetectionController) enqueuePolicyObjects(_ context.Context, q templateQueue, change inbox.Change) {
	for _, object := range change.States() {
		if policy, is := object.(policyv1alpha1.Policy); is {
			c.enqueueKeys(q, c.objectsOfPolicy(policy))
		}
	}
	if before, is := change.Before.(policyv1alpha1.Policy); is && (change.After == nil || change.After.GetUID() != before.GetUID()) {
		c.chooser.selections.ForgetPolicy(before) // it was looked at once more
	}
}

// onBinding watches the kinds that have bindings, and brings back the object of a
// binding that somebody has changed or deleted, or written for an object that is not there.
func (c *DetectionController) onBinding() templateHandler {
	add := func(q templateQueue, object client.Object) {
		if b, ok := object.(workv1alpha2.Binding); ok {
			q.Add(templates.KeyOf(b.BindingSpec().Resource))
		}
	}
	use := func(before, after client.Object) {
		was, _ := before.(workv1alpha2.Binding)
		is, _ := after.(workv1alpha2.Binding)
		c.bound.recordBinding(was, is)
	}
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q templateQueue) {
			use(nil, e.Object)
			if e.IsInInitialList {
				add(q, e.Object) // its object may have gone while nobody looked
				if b, ok := e.Object.(workv1alpha2.Binding); ok {
					c.Store.Decider.ObserveBinding(b, false) // before anything is decided
				}
			} else if c.lacksObject(e.Object) {
				add(q, e.Object) // or else nobody deletes the binding
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q templateQueue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
				use(e.ObjectOld, e.ObjectNew)
				add(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q templateQueue) {
			add(q, e.Object)
			use(e.Object, nil)
		},
	}
}

// lacksObject reports whether there is no object of a binding. Of a kind that is not listed yet, the object comes
// again when it is.
func (c *DetectionController) lacksObject(object client.Object) bool {
	b, is := object.(workv1alpha2.Binding)
	if !is {
		return false
	}
	template, known := c.Templates.Get(templates.KeyOf(b.BindingSpec().Resource))
	return known && template == nil
}

// policyChangeMatters reports whether a change of a policy can matter to objects: finalizers and
// such do not.
func policyChangeMatters(before, after client.Object) bool {
	return before.GetGeneration() != after.GetGeneration() || before.GetUID() != after.GetUID() ||
		before.GetAnnotations()[fleetv1alpha1.AnnotationPartialPlacement] != after.GetAnnotations()[fleetv1alpha1.AnnotationPartialPlacement] ||
		!maps.Equal(before.GetLabels(), after.GetLabels()) || !before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
}

// onArrival brings back the objects of policies that wait for an object which
// comes, as if these had changed: each policy has its turn. All objects are looked at anyway
// when the controller starts.
func (c *DetectionController) onArrival(value func(client.Object) string) templateHandler {
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, _ templateQueue) {
			if e.IsInInitialList {
				return
			}
			waiting, err := c.chooser.policiesAwaiting(ctx, value(e.Object))
			if err != nil {
				return // only a missing cache gives an error
			}
			for _, policy := range waiting {
				c.policies.NoteAgain(policy)
			}
		},
	}
}

func overrideIndexKey(object client.Object) string {
	return overrideName(object.GetNamespace(), object.GetName())
}

func classIndexKey(object client.Object) string { return className(object.GetName()) }

// objectsOfPolicy returns the objects that a policy claims or matches.
func (c *DetectionController) objectsOfPolicy(policy policyv1alpha1.Policy) []templates.Key {
	claimed := c.Templates.ClaimedObjects(claims.MarksForPolicy(policy).Labels)
	selectors := c.chooser.selections.SelectorsOf(policy)
	matched, _ := c.Templates.Find(selectors.SearchScopes(), func(object *metav1.PartialObjectMetadata) bool {
		return selectors.PriorityOf(object) != selector.None
	})
	return append(claimed, matched...)
}

func (c *DetectionController) enqueueKeys(q templateQueue, keys []templates.Key) {
	for _, key := range keys {
		q.Add(key)
	}
}

// policyUser names a policy as one who uses kinds.
func policyUser(policy client.Object) string {
	return "policy " + policy.GetNamespace() + "/" + policy.GetName()
}
