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

// ClusterSetBindingController keeps the condition Bound.
type ClusterSetBindingController struct{ client client.Client }

// NewClusterSetBindingController returns the controller.
func NewClusterSetBindingController(c client.Client) *ClusterSetBindingController {
	return &ClusterSetBindingController{client: c}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *ClusterSetBindingController) ControllerName() string { return "managedclusterset.binding" }

// SetupWithManager adds the controller to the manager.
func (c *ClusterSetBindingController) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &clusterv1beta2.ManagedClusterSetBinding{}, indexSet, indexBySet)
	if err != nil {
		return fmt.Errorf("indexing ManagedClusterSetBindings by %s: %w", indexSet, err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&clusterv1beta2.ManagedClusterSetBinding{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.bindingsOfSet), builder.WithPredicates(
			predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }})).
		Complete(conflict.RequeueConflicts(c))
}

func indexBySet(obj client.Object) []string {
	binding, ok := obj.(*clusterv1beta2.ManagedClusterSetBinding)
	if !ok {
		return nil
	}
	return []string{binding.Spec.ClusterSet}
}

// bindingsOfSet maps a set to its bindings.
func (c *ClusterSetBindingController) bindingsOfSet(ctx context.Context, set client.Object) []reconcile.Request {
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
func (c *ClusterSetBindingController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
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
	conditions.SetCondition(&binding.Status.Conditions, binding.Generation, bound)
	return ctrl.Result{}, client.IgnoreNotFound(conditions.PatchStatus(ctx, c.client, before, binding))
}
