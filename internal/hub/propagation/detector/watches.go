// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/conflict"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/reserved"
)

// workers is how many objects are looked at at a time.
const workers = 16

type queue = inbox.Queue[templates.Key]

// SetupWithManager adds the controller to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, changed *inbox.Inbox[templates.Key]) error {
	return builder.TypedControllerManagedBy[templates.Key](mgr).Named("template").
		WatchesRawSource(source.TypedFunc[templates.Key](changed.Open)).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.PropagationPolicy{}), c.onPolicy())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.ClusterPropagationPolicy{}), c.onPolicy())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&workv1alpha2.ResourceBinding{}), c.onBinding())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&workv1alpha2.ClusterResourceBinding{}), c.onBinding())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.OverridePolicy{}), c.onArrival(c.dependsOn))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&policyv1alpha1.ClusterOverridePolicy{}), c.onArrival(c.dependsOn))).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&corev1.Namespace{}), c.onNamespace())).
		WatchesRawSource(source.TypedKind(mgr.GetCache(), client.Object(&schedulingv1.PriorityClass{}), c.onArrival(ranksBy))).
		WithOptions(controller.TypedOptions[templates.Key]{MaxConcurrentReconciles: workers}).
		Complete(reconcile.TypedFunc[templates.Key](func(ctx context.Context, key templates.Key) (ctrl.Result, error) {
			return conflict.Quietly(c.Reconcile(ctx, key))
		}))
}

type handlerOf = handler.TypedEventHandler[client.Object, templates.Key]

// onPolicy watches the kinds that policies select, and brings back the objects
// that a policy claims or may match.
func (c *Controller) onPolicy() handlerOf {
	changed := func(q queue, objects ...client.Object) {
		for _, object := range objects {
			if policy, ok := object.(policyv1alpha1.Policy); ok {
				c.enqueue(q, c.touched(policy))
			}
		}
	}
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			c.Templates.Use(user(e.Object), selected(e.Object)...)
			changed(q, e.Object)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			c.Templates.Use(user(e.ObjectNew), selected(e.ObjectNew)...)
			changed(q, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			changed(q, e.Object)
			c.Templates.Use(user(e.Object))
		},
	}
}

// onBinding watches the kinds that have bindings, and brings back the object of a
// binding that somebody has changed or deleted.
func (c *Controller) onBinding() handlerOf {
	add := func(q queue, object client.Object) {
		if b, ok := object.(workv1alpha2.Binding); ok {
			q.Add(templates.KeyOf(b.BindingSpec().Resource))
		}
	}
	use := func(object client.Object) {
		if b, ok := object.(workv1alpha2.Binding); ok {
			c.Templates.Use(user(object), templates.KeyOf(b.BindingSpec().Resource).Kind)
		}
	}
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			use(e.Object)
			if e.IsInInitialList {
				add(q, e.Object) // its object may have gone while nobody looked
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() {
				add(q, e.ObjectNew)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			add(q, e.Object)
			c.Templates.Use(user(e.Object))
		},
	}
}

// onArrival brings back the objects of policies that wait for an object which
// comes.
func (c *Controller) onArrival(waits func(policyv1alpha1.Policy, client.Object) bool) handlerOf {
	return handler.TypedFuncs[client.Object, templates.Key]{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			all, err := c.allPolicies(ctx)
			if err != nil {
				return // only a missing cache gives an error
			}
			for _, policy := range all {
				if waits(policy, e.Object) {
					c.enqueue(q, c.touched(policy))
				}
			}
		},
	}
}

// dependsOn tells whether a policy waits for an override policy.
func (c *Controller) dependsOn(policy policyv1alpha1.Policy, override client.Object) bool {
	return policy.GetNamespace() == override.GetNamespace() && slices.Contains(policy.PropagationSpec().DependentOverrides, override.GetName())
}

// ranksBy tells whether a policy names a PriorityClass.
func ranksBy(policy policyv1alpha1.Policy, class client.Object) bool {
	asked := policy.PropagationSpec().SchedulePriority
	return asked != nil && asked.PriorityClassName == class.GetName()
}

func (c *Controller) allPolicies(ctx context.Context) ([]policyv1alpha1.Policy, error) {
	all, err := c.policies(ctx, "")
	if err != nil {
		return nil, err
	}
	own := &policyv1alpha1.PropagationPolicyList{}
	if err := c.Client.List(ctx, own, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err //nolint:wrapcheck // only a missing cache gives an error
	}
	for i := range own.Items {
		all = append(all, &own.Items[i])
	}
	return all, nil
}

// touched returns the objects that a policy claims or may match.
func (c *Controller) touched(policy policyv1alpha1.Policy) []templates.Key {
	kinds := selected(policy)
	namespace := policy.GetNamespace()
	claimed := c.Templates.Select(func(object *metav1.PartialObjectMetadata) bool { return claims.Claims(policy, object) })
	if len(kinds) == 0 {
		return claimed
	}
	return append(claimed, c.Templates.Select(func(object *metav1.PartialObjectMetadata) bool {
		return (namespace == "" || namespace == object.Namespace) && claims.Matches(policy, object)
	}, kinds...)...)
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

// user names who uses a kind.
func user(object client.Object) string {
	name := object.GetNamespace() + "/" + object.GetName()
	if _, is := object.(workv1alpha2.Binding); is {
		return "binding " + name
	}
	return "policy " + name
}
