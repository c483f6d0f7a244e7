// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package continuous

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// workers is how many bindings are looked at at a time: each look compares all clusters.
const workers = 4

// SetupWithManager adds the controller to the manager.
func (c *RebalanceController) SetupWithManager(mgr ctrl.Manager) error {
	changed := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	asks := builder.WithPredicates(predicate.AnnotationChangedPredicate{})
	return ctrl.NewControllerManagedBy(mgr).Named("rebalance").
		Watches(&workv1alpha2.ResourceBinding{}, &handler.EnqueueRequestForObject{}, changed).
		Watches(&workv1alpha2.ClusterResourceBinding{}, &handler.EnqueueRequestForObject{}, changed).
		Watches(&policyv1alpha1.PropagationPolicy{}, handler.EnqueueRequestsFromMapFunc(c.bindingsOfPolicy), asks).
		Watches(&policyv1alpha1.ClusterPropagationPolicy{}, handler.EnqueueRequestsFromMapFunc(c.bindingsOfPolicy), asks).
		WithOptions(options()).
		Complete(conflict.RequeueConflicts(c))
}

// options leave some workers to others than the bindings of any one namespace.
func options() controller.Options {
	return order.SharedOptions(workers, func(binding reconcile.Request) string { return binding.Namespace })
}

// bindingsOfPolicy returns the bindings of a policy.
func (c *RebalanceController) bindingsOfPolicy(ctx context.Context, object client.Object) []reconcile.Request {
	policy, ok := object.(policyv1alpha1.Policy)
	if !ok || claims.PermanentPolicyID(policy) == "" {
		return nil
	}
	by := []client.ListOption{client.MatchingLabels(claims.MarksForPolicy(policy).Labels), client.InNamespace(policy.GetNamespace()), client.UnsafeDisableDeepCopy}
	own := &workv1alpha2.ResourceBindingList{}
	wide := &workv1alpha2.ClusterResourceBindingList{}
	if err := c.Client.List(ctx, own, by...); err != nil {
		return nil // only a missing cache gives an error
	}
	var requests []reconcile.Request
	for i := range own.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&own.Items[i])})
	}
	if policy.GetNamespace() != "" {
		return requests
	}
	if err := c.Client.List(ctx, wide, by...); err != nil {
		return nil // only a missing cache gives an error
	}
	for i := range wide.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&wide.Items[i])})
	}
	return requests
}
