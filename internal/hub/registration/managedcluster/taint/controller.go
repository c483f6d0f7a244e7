// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch;patch

const (
	fieldOwner    = "registration-controller-taint"
	reconcilesMax = 4
)

// ClusterTaintController keeps the taints of every ManagedCluster.
type ClusterTaintController struct{ client client.Client }

// NewClusterTaintController returns the controller.
func NewClusterTaintController(c client.Client) *ClusterTaintController {
	return &ClusterTaintController{client: c}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *ClusterTaintController) ControllerName() string { return "managedcluster.taint" }

// SetupWithManager adds the controller to the manager.
func (c *ClusterTaintController) SetupWithManager(mgr ctrl.Manager) error {
	needed := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		mc, ok := obj.(*clusterv1.ManagedCluster)
		return ok && needsWrite(mc.DeepCopy())
	})
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilesMax}).
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(needed)).
		Complete(conflict.RequeueConflicts(c))
}

// Reconcile makes the taints of one cluster fit its condition.
func (c *ClusterTaintController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: req.Name}, mc); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := mc.DeepCopy()
	if !needsWrite(mc) {
		return ctrl.Result{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the taints of ManagedCluster %q: %w", mc.Name, err)
	}
	return ctrl.Result{}, nil
}

// needsWrite changes the taints in memory. A cluster that gets its finalizer
// only now gets its taint with the same write.
func needsWrite(mc *clusterv1.ManagedCluster) bool {
	if !mc.DeletionTimestamp.IsZero() {
		return false
	}
	if mc.Spec.HubAcceptsClient && !controllerutil.ContainsFinalizer(mc, clusterv1.FinalizerAPIResourceCleanup) {
		return false
	}
	return UpdateTaints(mc)
}
