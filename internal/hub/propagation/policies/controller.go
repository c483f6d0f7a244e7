// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies lets a policy that is being deleted go when nothing says any
// more that it claims it. What it has sent to clusters stays.
package policies

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/conflict"
	"github.com/capstan-io/capstan/internal/hub/propagation/claims"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
)

// again is how soon to look whether the objects of a policy have been let go.
const again = 200 * time.Millisecond

// Controller lets policies go.
type Controller struct {
	client    client.Client
	templates *templates.Templates
}

// New returns the controller. The client reads from a cache.
func New(c client.Client, t *templates.Templates) *Controller {
	return &Controller{client: c, templates: t}
}

// policy is a Policy that the client knows.
type policy interface {
	policyv1alpha1.Policy
	client.Object
	runtime.Object
}

// SetupWithManager adds the controller to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("policy").
		Watches(&policyv1alpha1.PropagationPolicy{}, &handler.EnqueueRequestForObject{}).
		Watches(&policyv1alpha1.ClusterPropagationPolicy{}, &handler.EnqueueRequestForObject{}).
		Complete(conflict.Quiet(c))
}

// Reconcile lets a policy go that is being deleted, when no object and no binding
// says any more that it claims them: the detector takes that off them.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var p policy = &policyv1alpha1.PropagationPolicy{}
	var bindings client.ObjectList = &workv1alpha2.ResourceBindingList{}
	finalizer := policyv1alpha1.FinalizerPropagationPolicy
	if req.Namespace == "" {
		p, finalizer = &policyv1alpha1.ClusterPropagationPolicy{}, policyv1alpha1.FinalizerClusterPropagationPolicy
	}
	if err := c.client.Get(ctx, req.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading policy %q: %w", req.NamespacedName, err)
	}
	if p.GetDeletionTimestamp().IsZero() || !controllerutil.ContainsFinalizer(p, finalizer) {
		return ctrl.Result{}, nil
	}
	if claims.ID(p) != "" {
		lists := []client.ObjectList{bindings}
		if req.Namespace == "" {
			lists = append(lists, &workv1alpha2.ClusterResourceBindingList{})
		}
		for _, list := range lists {
			if err := c.client.List(ctx, list, client.MatchingLabels(claims.Of(p).Labels), client.UnsafeDisableDeepCopy); err != nil {
				return ctrl.Result{}, fmt.Errorf("listing the bindings of policy %q: %w", req.NamespacedName, err)
			}
			if length(list) > 0 {
				return ctrl.Result{RequeueAfter: again}, nil
			}
		}
		claimed := c.templates.Select(func(object *metav1.PartialObjectMetadata) bool { return claims.Claims(p, object) })
		if len(claimed) > 0 {
			return ctrl.Result{RequeueAfter: again}, nil
		}
	}
	after := p.DeepCopyObject().(policy) //nolint:forcetypeassert // it is one
	controllerutil.RemoveFinalizer(after, finalizer)
	if err := c.client.Patch(ctx, after, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("letting policy %q go: %w", req.NamespacedName, err)
	}
	return ctrl.Result{}, nil
}

func length(list client.ObjectList) int {
	switch l := list.(type) {
	case *workv1alpha2.ResourceBindingList:
		return len(l.Items)
	case *workv1alpha2.ClusterResourceBindingList:
		return len(l.Items)
	default:
		return 0
	}
}
