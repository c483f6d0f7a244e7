// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/gc"
)

const reasonDetachedWithoutCleanup = "DetachedWithoutCleanup"

// finalize empties the namespace of a cluster, then removes its connection, by
// which the push agent cleaned up, takes the permissions back
// and lets the ManagedCluster go. The agent keeps its permissions as long as
// it has something to clean up. The namespace itself stays: users keep things
// of their own there.
func (c *ClusterLifecycleController) finalize(ctx context.Context, mc *clusterv1.ManagedCluster) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(mc, clusterv1.FinalizerAPIResourceCleanup) &&
		!controllerutil.ContainsFinalizer(mc, clusterv1.FinalizerResourceCleanup) {
		return ctrl.Result{}, nil
	}
	if c.Collector != nil && c.unusableReason(mc.Name) == "" {
		remaining, err := c.collectRemains(ctx, mc)
		if err != nil {
			setDeleting(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonDeletingError, err.Error())
			return ctrl.Result{}, err
		}
		if remaining.Released > 0 {
			c.Events.Eventf(mc, nil, corev1.EventTypeWarning, reasonDetachedWithoutCleanup, "Detach",
				"%d %s were released without cleaning up the member: %s", remaining.Released, remaining.Resource, remaining.Why)
		}
		if remaining.Count > 0 {
			setDeleting(mc, metav1.ConditionFalse, clusterv1.ManagedClusterReasonDeletingResourceRemaining, remaining.Message())
			return ctrl.Result{RequeueAfter: remaining.RetryAfter}, nil
		}
	}
	setDeleting(mc, metav1.ConditionTrue, clusterv1.ManagedClusterReasonDeletingNoResource, "nothing remains to be deleted")
	c.holders.dropIdentity(mc.Name)
	if err := errors.Join(c.writer.deleteConnection(ctx, mc), c.writer.removeLeftovers(ctx, mc.Name)); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, c.removeFinalizers(ctx, mc)
}

// collectRemains leaves a namespace alone that is not the cluster's: what is there is
// somebody else's.
func (c *ClusterLifecycleController) collectRemains(ctx context.Context, mc *clusterv1.ManagedCluster) (gc.Remaining, error) {
	owns, err := c.writer.ownsNamespace(ctx, mc.Name)
	if err != nil || !owns {
		return gc.Remaining{}, err
	}
	return c.Collector.Collect(ctx, mc)
}

// removeFinalizers removes our finalizers, also that of an earlier hub. The status in
// memory is kept: it is written if the finalizer of someone else remains.
func (c *ClusterLifecycleController) removeFinalizers(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	before := mc.DeepCopy()
	status := mc.Status.DeepCopy()
	controllerutil.RemoveFinalizer(mc, clusterv1.FinalizerAPIResourceCleanup)
	controllerutil.RemoveFinalizer(mc, clusterv1.FinalizerResourceCleanup)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, mc, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizers of ManagedCluster %q: %w", mc.Name, err)
	}
	mc.Status = *status
	return nil
}
