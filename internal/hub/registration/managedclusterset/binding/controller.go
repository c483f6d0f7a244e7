// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding reports in the status of a ManagedClusterSetBinding whether
// its set exists.
package binding

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets;managedclustersetbindings,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersetbindings/status,verbs=patch;update

// indexSet finds the bindings of a set.
const indexSet = "spec.clusterSet"

// Controller keeps the condition Bound.
type Controller struct{ client client.Client }

// New returns the controller.
func New(c client.Client) *Controller { return &Controller{client: c} }

// Name is the name of the controller in logs and metrics.
func (c *Controller) Name() string { return "managedclusterset.binding" }

// SetupWithManager adds the controller to the manager.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &clusterv1beta2.ManagedClusterSetBinding{}, indexSet, bySet)
	if err != nil {
		return fmt.Errorf("indexing ManagedClusterSetBindings by %s: %w", indexSet, err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named(c.Name()).
		For(&clusterv1beta2.ManagedClusterSetBinding{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.bindings), builder.WithPredicates(
			predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Complete(conflict.Quiet(c))
}

func bySet(obj client.Object) []string {
	binding, ok := obj.(*clusterv1beta2.ManagedClusterSetBinding)
	if !ok {
		return nil
	}
	return []string{binding.Spec.ClusterSet}
}

// bindings maps a set to its bindings.
func (c *Controller) bindings(ctx context.Context, set client.Object) []reconcile.Request {
	list := &clusterv1beta2.ManagedClusterSetBindingList{}
	if err := c.client.List(ctx, list, client.MatchingFields{indexSet: set.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing index gives an error
	}
	requests := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}

// Reconcile looks whether the set of one binding exists.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	binding := &clusterv1beta2.ManagedClusterSetBinding{}
	if err := c.client.Get(ctx, req.NamespacedName, binding); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !binding.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	err := c.client.Get(ctx, types.NamespacedName{Name: binding.Spec.ClusterSet}, &clusterv1beta2.ManagedClusterSet{})
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading ManagedClusterSet %q: %w", binding.Spec.ClusterSet, err)
	}
	before := binding.DeepCopy()
	bound := metav1.Condition{
		Type: clusterv1beta2.ManagedClusterSetBindingConditionBound, Status: metav1.ConditionTrue,
		Reason: clusterv1beta2.ManagedClusterSetBindingReasonBound, Message: "the ManagedClusterSet exists",
	}
	if apierrors.IsNotFound(err) {
		bound.Status = metav1.ConditionFalse
		bound.Reason = clusterv1beta2.ManagedClusterSetBindingReasonNotFound
		bound.Message = fmt.Sprintf("there is no ManagedClusterSet %q", binding.Spec.ClusterSet)
	}
	conditions.Set(&binding.Status.Conditions, binding.Generation, bound)
	return ctrl.Result{}, client.IgnoreNotFound(conditions.PatchStatus(ctx, c.client, before, binding))
}
