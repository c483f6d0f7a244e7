// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rebalancer requests a new choice of clusters for objects that a
// WorkloadRebalancer names, and deletes it when its time is over.
package rebalancer

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// +kubebuilder:rbac:groups=apps.karmada.io,resources=workloadrebalancers,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=apps.karmada.io,resources=workloadrebalancers/status,verbs=patch

// WorkloadRebalancerController looks after WorkloadRebalancers.
type WorkloadRebalancerController struct {
	client client.Client
	clock  clock.PassiveClock
}

// NewWorkloadRebalancerController returns the controller. The client reads from a cache.
func NewWorkloadRebalancerController(c client.Client, clk clock.PassiveClock) *WorkloadRebalancerController {
	return &WorkloadRebalancerController{client: c, clock: clk}
}

// SetupWithManager adds the controller to the manager.
func (c *WorkloadRebalancerController) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("workloadrebalancer").
		For(&appsv1alpha1.WorkloadRebalancer{}).
		Complete(conflict.RequeueConflicts(c))
}

// Reconcile asks for all that a rebalancer names and that was not asked for yet,
// says so, and deletes the rebalancer when it is due. What fails on the way is
// tried again, and no result.
func (c *WorkloadRebalancerController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	before := &appsv1alpha1.WorkloadRebalancer{}
	if err := c.client.Get(ctx, req.NamespacedName, before); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !before.DeletionTimestamp.IsZero():
		return ctrl.Result{}, nil
	case isFinished(before):
		return c.deleteExpired(ctx, before)
	}
	after := before.DeepCopy()
	done := knownResults(before)
	var failed error
	for _, workload := range after.Spec.Workloads {
		if _, is := done[workload]; is {
			continue
		}
		found, err := c.trigger(ctx, workload, after.CreationTimestamp)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		done.set(workload, found)
	}
	reportResults(after, done, c.clock.Now())
	if err := conditions.PatchStatus(ctx, c.client, before, after); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, errors.Join(failed, err)
	}
	if failed != nil {
		return ctrl.Result{}, failed
	}
	return c.deleteExpired(ctx, after)
}

// trigger has the clusters of an object chosen anew, unless that was asked for
// later. It reports whether there is a binding of the object.
func (c *WorkloadRebalancerController) trigger(ctx context.Context, workload appsv1alpha1.ObjectReference, at metav1.Time) (bool, error) {
	bindings, err := lookup.FindBindings(ctx, c.client, templates.Key{
		Kind: schema.FromAPIVersionAndKind(workload.APIVersion, workload.Kind),
		Name: types.NamespacedName{Namespace: workload.Namespace, Name: workload.Name},
	})
	if err != nil {
		return false, err
	}
	found := false
	for _, binding := range bindings.Own {
		if !binding.GetDeletionTimestamp().IsZero() {
			continue // that of an earlier object of the same name
		}
		found = true
		if asked := binding.BindingSpec().RescheduleTriggeredAt; asked != nil && !at.After(asked.Time) {
			continue
		}
		after := deepcopy.CopyObject(binding)
		after.BindingSpec().RescheduleTriggeredAt = &at
		// Under a lock, or the older of two rebalancers could come after the newer one.
		err := c.client.Patch(ctx, after, client.MergeFromWithOptions(binding, client.MergeFromWithOptimisticLock{}))
		if err != nil {
			return false, fmt.Errorf("asking for new clusters in binding %q: %w", client.ObjectKeyFromObject(binding), err)
		}
	}
	return found, nil
}

// deleteExpired deletes a rebalancer that is due, or waits until it is.
func (c *WorkloadRebalancerController) deleteExpired(ctx context.Context, r *appsv1alpha1.WorkloadRebalancer) (ctrl.Result, error) {
	when, ends := deletionTime(r)
	if !ends {
		return ctrl.Result{}, nil
	}
	if wait := when.Sub(c.clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	// One that has been changed meanwhile has more to do.
	err := c.client.Delete(ctx, r, client.Preconditions{UID: ptr.To(r.UID), ResourceVersion: ptr.To(r.ResourceVersion)})
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("deleting WorkloadRebalancer %q, which has finished: %w", r.Name, err)
	}
	return ctrl.Result{}, nil
}
