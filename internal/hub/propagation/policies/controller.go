// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policies gives each policy an ID for life, if admission has not, and
// lets one that is being deleted go when nothing says any more that it claims it.
// What it has sent to clusters stays. It tells the author of a policy which of the
// kinds that it selects the hub does not serve, that it selects no object, and that it
// selects some that are never sent.
package policies

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/conflict"
	"github.com/capstan-io/capstan/internal/events"
	"github.com/capstan-io/capstan/internal/fleet/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

const (
	// again is how soon to look whether the objects of a policy have been let go.
	again = 200 * time.Millisecond
	// indexClaim finds the bindings that a policy claims, by its ID.
	indexClaim = "claimed-by"
)

// Index adds the index by which the controller reads bindings.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	byClaim := func(object client.Object) []string {
		var ids []string
		for _, key := range claims.LabelKeys() {
			if id := object.GetLabels()[key]; id != "" {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for _, kind := range []client.Object{&workv1alpha2.ResourceBinding{}, &workv1alpha2.ClusterResourceBinding{}} {
		if err := indexer.IndexField(ctx, kind, indexClaim, byClaim); err != nil {
			return fmt.Errorf("indexing %T by %s: %w", kind, indexClaim, err)
		}
	}
	return nil
}

// Controller looks after policies.
type Controller struct {
	client    client.Client
	templates *templates.Templates
	kinds     *kinds
	selected  *selected
}

// Deps are what the controller works with.
type Deps struct {
	// Client reads from a cache, and Mapper knows kinds only as they are spelled.
	Client    client.Client
	Mapper    meta.RESTMapper
	Templates *templates.Templates
	// Clusters returns the fleet as it is now.
	Clusters func() view.Fleet
	Events   *events.Recorder
	Clock    clock.Clock
}

// New returns the controller.
func New(d Deps) *Controller {
	return &Controller{
		client: d.Client, templates: d.Templates,
		selected: &selected{templates: d.Templates, clusters: d.Clusters, events: d.Events, clock: d.Clock, seen: map[types.NamespacedName]sight{}},
		kinds:    &kinds{mapper: d.Mapper, events: d.Events, said: map[types.NamespacedName]notice{}},
	}
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

// Reconcile gives a policy its ID and its finalizer and tells what it selects in
// vain, or lets it go if it is being deleted.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var p policy = &policyv1alpha1.PropagationPolicy{}
	label, finalizer := policyv1alpha1.LabelPropagationPolicyID, policyv1alpha1.FinalizerPropagationPolicy
	if req.Namespace == "" {
		p = &policyv1alpha1.ClusterPropagationPolicy{}
		label, finalizer = policyv1alpha1.LabelClusterPropagationPolicyID, policyv1alpha1.FinalizerClusterPropagationPolicy
	}
	if err := c.client.Get(ctx, req.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			c.kinds.forget(req.NamespacedName)
			c.selected.forget(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading policy %q: %w", req.NamespacedName, err)
	}
	wait := time.Duration(0)
	after := p.DeepCopyObject().(policy) //nolint:forcetypeassert // it is one
	switch {
	case p.GetDeletionTimestamp().IsZero():
		c.kinds.tell(p)
		wait = c.selected.tell(p)
		if claims.ID(p) == "" {
			labels := map[string]string{label: uuid.NewString()}
			maps.Copy(labels, p.GetLabels())
			after.SetLabels(labels)
		}
		controllerutil.AddFinalizer(after, finalizer)
	case !controllerutil.ContainsFinalizer(p, finalizer):
	default:
		if claimed, err := c.claims(ctx, p); claimed || err != nil {
			return ctrl.Result{RequeueAfter: again}, err
		}
		controllerutil.RemoveFinalizer(after, finalizer)
	}
	if equality.Semantic.DeepEqual(p, after) {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	if err := c.client.Patch(ctx, after, client.MergeFromWithOptions(p, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("changing policy %q: %w", req.NamespacedName, err)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// claims tells whether an object or a binding still says that a policy claims it:
// the detector takes that off them.
func (c *Controller) claims(ctx context.Context, p policy) (bool, error) {
	if claims.ID(p) == "" {
		return false, nil
	}
	lists, by := []client.ObjectList{&workv1alpha2.ResourceBindingList{}}, client.MatchingFields{indexClaim: claims.ID(p)}
	if p.GetNamespace() == "" {
		lists = append(lists, &workv1alpha2.ClusterResourceBindingList{})
	}
	for _, list := range lists {
		if err := c.client.List(ctx, list, by, client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("listing the bindings of policy %q: %w", client.ObjectKeyFromObject(p), err)
		}
		if meta.LenList(list) > 0 {
			return true, nil
		}
	}
	if !c.templates.Synced() {
		return true, nil // as far as is known
	}
	return slices.ContainsFunc(c.templates.Claimed(claims.Of(p).Labels), func(key templates.Key) bool {
		return key.Kind.Group != rbacv1.GroupName // roles may not let themselves be unmarked
	}), nil
}
