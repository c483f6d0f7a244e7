// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ttl

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=get;list;watch;delete

// reconcilesMax is how many works are deleted at a time.
const reconcilesMax = 8

// WorkTTLController deletes each work when it is due.
type WorkTTLController struct {
	client client.Client
	clock  clock.PassiveClock
}

// NewWorkTTLController returns the controller. The client may read from a cache with SlimExpiringWork.
func NewWorkTTLController(c client.Client, clock clock.PassiveClock) *WorkTTLController {
	return &WorkTTLController{client: c, clock: clock}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *WorkTTLController) ControllerName() string { return "manifestwork.ttl" }

// SetupWithManager adds the controller to the manager.
func (c *WorkTTLController) SetupWithManager(mgr ctrl.Manager) error {
	ends := predicate.NewPredicateFuncs(func(obj client.Object) bool {
		work, ok := obj.(*workv1.ManifestWork)
		if !ok {
			return false
		}
		_, ends := DeletionTime(work)
		return ends
	})
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilesMax}).
		For(&workv1.ManifestWork{}, builder.WithPredicates(ends)).
		Complete(conflict.RequeueConflicts(c))
}

// Reconcile deletes one work if its time has come, and otherwise waits until
// then. A change of the work asks again.
func (c *WorkTTLController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	work := &workv1.ManifestWork{}
	if err := c.client.Get(ctx, req.NamespacedName, work); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	due, ends := DeletionTime(work)
	if !ends {
		return ctrl.Result{}, nil
	}
	if wait := due.Sub(c.clock.Now()); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	// What was decided upon is what is deleted: not a work that was made again
	// under the same name, nor one that has changed.
	err := c.client.Delete(ctx, work, client.Preconditions{
		UID: ptr.To(work.UID), ResourceVersion: ptr.To(work.ResourceVersion),
	})
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return ctrl.Result{}, nil // the change comes by the watch
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("deleting ManifestWork %q, which has finished: %w", req.NamespacedName, err)
	}
	log.FromContext(ctx).Info("Deleted a finished work: its time to live is over", "due", due)
	return ctrl.Result{}, nil
}
