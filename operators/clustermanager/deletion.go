// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/render"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

const (
	// DefaultDeletionDeadline is how long after its deletion a ClusterManager waits
	// for clusters that are not Available. Such a cluster has been silent for
	// minutes already, and tools wait for 90 s altogether.
	DefaultDeletionDeadline = time.Minute
	// removalRetry is how often we look whether something has gone.
	removalRetry = time.Second
)

// removal is a step of the removal of a hub. It returns what it still waits
// for, or nothing if the next step may begin.
type removal struct {
	// waiting is the reason of the condition Deleting while it waits.
	waiting string
	run     func(context.Context, *operatorv1.ClusterManager) (waitingFor string, err error)
}

// finalize removes the hub and then lets the ClusterManager go.
func (c *Controller) finalize(ctx context.Context, before, cm *operatorv1.ClusterManager) (ctrl.Result, error) {
	if !controllerutil.ContainsFinalizer(cm, operatorv1.FinalizerClusterManagerCleanup) {
		return ctrl.Result{}, nil
	}
	for _, step := range c.removals {
		waitingFor, err := step.run(ctx, cm)
		if err == nil && waitingFor == "" {
			continue
		}
		reason, message := step.waiting, waitingFor
		if err != nil {
			reason, message = operatorv1.ClusterManagerReasonCleanupFailed, err.Error()
		}
		conditions.Set(&cm.Status.Conditions, cm.Generation, metav1.Condition{
			Type: operatorv1.ClusterManagerConditionDeleting, Status: metav1.ConditionTrue,
			Reason: reason, Message: message,
		})
		err = errors.Join(err, conditions.PatchStatus(ctx, c.client, before, cm), c.upgrade.tell(ctx, cm))
		if err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{RequeueAfter: removalRetry}, nil
	}
	controllerutil.RemoveFinalizer(cm, operatorv1.FinalizerClusterManagerCleanup)
	// Under the lock, so that we never remove what another has just added.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, cm, patch); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("removing the finalizer of ClusterManager %q: %w", cm.Name, err)
	}
	gone := cm.DeepCopy()
	gone.Status = operatorv1.ClusterManagerStatus{}
	return ctrl.Result{}, c.upgrade.tell(ctx, gone)
}

// deadline returns the time after which clusters that are not Available are not
// waited for, and how long after the deletion that is.
func deadline(cm *operatorv1.ClusterManager) (time.Time, time.Duration) {
	wait, err := time.ParseDuration(cm.Annotations[operatorv1.AnnotationDeletionDeadline])
	if err != nil || wait < 0 {
		wait = DefaultDeletionDeadline
	}
	return cm.DeletionTimestamp.Add(wait), wait
}

func (c *Controller) pastDeadline(cm *operatorv1.ClusterManager) bool {
	at, _ := deadline(cm)
	return !c.clock.Now().Before(at)
}

// removeInstalled removes everything but the namespace.
func (c *Controller) removeInstalled(ctx context.Context, cm *operatorv1.ClusterManager) (string, error) {
	h := manifests.Hub{Name: cm.Name}
	_, err := c.applier.Prune(ctx, render.Scope{Kinds: installedKinds(), Labels: h.Owner()}, nil)
	return "", err
}

// removeNamespace removes the namespace of the hub with what is left in it, and
// waits for its end, but not beyond the deadline: nothing that we could do
// would speed it up.
func (c *Controller) removeNamespace(ctx context.Context, cm *operatorv1.ClusterManager) (string, error) {
	name := manifests.Hub{Name: cm.Name}.Namespace()
	namespace := &corev1.Namespace{}
	err := c.reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading the namespace %q: %w", name, err)
	}
	if !ours(namespace, cm.Name) {
		return "", nil
	}
	if namespace.DeletionTimestamp.IsZero() {
		if err := c.client.Delete(ctx, namespace); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("deleting the namespace %q: %w", name, err)
		}
	}
	if c.pastDeadline(cm) {
		return "", nil
	}
	return fmt.Sprintf("the namespace %q is being removed", name), nil
}

// available tells whether a Deployment of the hub has a pod that works.
func (c *Controller) available(ctx context.Context, cm *operatorv1.ClusterManager, part string) (bool, error) {
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: manifests.Hub{Name: cm.Name}.Namespace(), Name: cm.Name + "-" + part}
	if err := c.client.Get(ctx, key, deployment); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the Deployment %q: %w", key, err)
	}
	return deployment.Status.AvailableReplicas > 0, nil
}
