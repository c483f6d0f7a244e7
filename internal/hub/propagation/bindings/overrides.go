// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// onOverride brings back the bindings whose objects an override policy changes, or
// has changed. All bindings are looked at anyway when the controller starts.
func (c *BindingController) onOverride() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ bindingQueue) {
			if !e.IsInInitialList {
				c.policies.AddChange(nil, e.Object)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ bindingQueue) {
			c.policies.AddChange(e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ bindingQueue) { c.policies.AddChange(e.Object, nil) },
	}
}

// enqueueOverridden brings back the bindings of objects that an override policy which has changed is
// about, or was.
func (c *BindingController) enqueueOverridden(ctx context.Context, q bindingQueue, change inbox.Change) {
	for _, policy := range change.States() {
		names, err := c.overriddenBindings(ctx, policy)
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot find the bindings of an override policy", "namespace", policy.GetNamespace(), "name", policy.GetName())
		}
		for _, name := range names {
			q.Add(reconcile.Request{NamespacedName: name})
		}
	}
}

// overriddenBindings returns the bindings whose objects an override policy changes. One
// with a mistake holds back all that are in its reach.
func (c *BindingController) overriddenBindings(ctx context.Context, policy client.Object) ([]types.NamespacedName, error) {
	selectors, problems := selector.CompileSelectors(policy.GetNamespace(), selectorsOf(policy), nil)
	if len(problems) > 0 || len(selectors) == 0 {
		return c.bindingsInNamespace(ctx, policy.GetNamespace(), func(workv1alpha2.ObjectReference) bool { return true })
	}
	keys, unknown := c.Templates.Find(selectors.SearchScopes(), func(object *metav1.PartialObjectMetadata) bool {
		return selectors.PriorityOf(object) != selector.None
	})
	var names []types.NamespacedName
	if len(unknown) > 0 { // whether their labels match is not known either
		var err error
		names, err = c.bindingsInNamespace(ctx, policy.GetNamespace(), func(object workv1alpha2.ObjectReference) bool {
			return slices.ContainsFunc(unknown, func(s selector.SearchScope) bool { return isInScope(s, object) })
		})
		if err != nil {
			return nil, err
		}
	}
	for _, key := range keys {
		found, err := lookup.FindBindings(ctx, c.Client, key)
		if err != nil {
			return names, fmt.Errorf("finding the binding of %s: %w", key, err)
		}
		for _, b := range found.Own {
			names = append(names, client.ObjectKeyFromObject(b))
		}
	}
	return names, nil
}

func selectorsOf(policy client.Object) []policyv1alpha1.ResourceSelector {
	switch p := policy.(type) {
	case *policyv1alpha1.OverridePolicy:
		return p.Spec.ResourceSelectors
	case *policyv1alpha1.ClusterOverridePolicy:
		return p.Spec.ResourceSelectors
	default:
		return nil
	}
}

// isInScope reports whether an object is in a scope.
func isInScope(s selector.SearchScope, object workv1alpha2.ObjectReference) bool {
	return templates.KeyOf(object).Kind == s.Kind && (s.Namespace == "" || s.Namespace == object.Namespace) && (s.Name == "" || s.Name == object.Name)
}

// bindingsInNamespace returns the bindings of a namespace, and of all if it is "", whose objects
// the function selects.
func (c *BindingController) bindingsInNamespace(ctx context.Context, namespace string, selects func(workv1alpha2.ObjectReference) bool) ([]types.NamespacedName, error) {
	own := &workv1alpha2.ResourceBindingList{}
	wide := &workv1alpha2.ClusterResourceBindingList{}
	if err := c.Client.List(ctx, own, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ResourceBindings: %w", err)
	}
	var names []types.NamespacedName
	for i := range own.Items {
		if selects(own.Items[i].Spec.Resource) {
			names = append(names, client.ObjectKeyFromObject(&own.Items[i]))
		}
	}
	if namespace != "" {
		return names, nil
	}
	if err := c.Client.List(ctx, wide, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ClusterResourceBindings: %w", err)
	}
	for i := range wide.Items {
		if selects(wide.Items[i].Spec.Resource) {
			names = append(names, client.ObjectKeyFromObject(&wide.Items[i]))
		}
	}
	return names, nil
}
