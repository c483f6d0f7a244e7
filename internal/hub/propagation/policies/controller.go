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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/conflict"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

const (
	// workers is how many policies are looked at at a time. What one selects takes long if
	// there are many objects of its kinds.
	workers = 4
	// again is how soon to look whether the objects of a policy have been let go.
	again = 200 * time.Millisecond
	// patience is how long it is awaited. What cannot be let go by then does not keep
	// the policy; the detector goes on trying.
	patience = 10 * time.Minute
	// indexClaim finds the bindings that a policy claims, by its ID.
	indexClaim = "claimed-by"
)

// IndexClaims adds the index by which the controller reads bindings.
func IndexClaims(ctx context.Context, indexer client.FieldIndexer) error {
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

// PolicyController looks after policies.
type PolicyController struct {
	client    client.Client
	templates *templates.Templates
	changed   func(templates.Key)
	clock     clock.Clock
	kinds     *kindReporter
	selected  *selectionReporter
}

// PolicyDeps are what the controller works with.
type PolicyDeps struct {
	// Client reads from a cache, and Mapper knows kinds only as they are spelled.
	Client    client.Client
	Mapper    meta.RESTMapper
	Templates *templates.Templates
	// Clusters returns the fleet as it is now.
	Clusters func() view.Fleet
	// Changed has the detector look at an object whose binding keeps a policy.
	Changed func(templates.Key)
	Events  *events.Recorder
	Clock   clock.Clock
}

// NewPolicyController returns the controller.
func NewPolicyController(d PolicyDeps) *PolicyController {
	return &PolicyController{
		client: d.Client, templates: d.Templates, changed: d.Changed, clock: d.Clock,
		selected: &selectionReporter{templates: d.Templates, clusters: d.Clusters, events: d.Events, clock: d.Clock, seen: map[types.NamespacedName]sight{}},
		kinds:    &kindReporter{mapper: d.Mapper, events: d.Events, said: map[types.NamespacedName]map[string]notice{}},
	}
}

// policy is a Policy that the client knows.
type policy interface {
	policyv1alpha1.Policy
	client.Object
	runtime.Object
}

// SetupWithManager adds the controller to the manager.
func (c *PolicyController) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named("policy").
		Watches(&policyv1alpha1.PropagationPolicy{}, &handler.EnqueueRequestForObject{}).
		Watches(&policyv1alpha1.ClusterPropagationPolicy{}, &handler.EnqueueRequestForObject{}).
		WithOptions(order.SharedOptions(workers, func(policy ctrl.Request) string { return policy.Namespace })).
		Complete(conflict.RequeueConflicts(c))
}

// Reconcile gives a policy its ID and its finalizer and tells what it selects in
// vain, or lets it go if it is being deleted.
func (c *PolicyController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var p policy = &policyv1alpha1.PropagationPolicy{}
	label := policyv1alpha1.LabelPropagationPolicyID
	finalizer := policyv1alpha1.FinalizerPropagationPolicy
	if req.Namespace == "" {
		p = &policyv1alpha1.ClusterPropagationPolicy{}
		label = policyv1alpha1.LabelClusterPropagationPolicyID
		finalizer = policyv1alpha1.FinalizerClusterPropagationPolicy
	}
	if err := c.client.Get(ctx, req.NamespacedName, p); err != nil {
		if apierrors.IsNotFound(err) {
			c.kinds.forgetPolicy(req.NamespacedName)
			c.selected.forgetPolicy(req.NamespacedName)
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading policy %q: %w", req.NamespacedName, err)
	}
	wait := time.Duration(0)
	after := deepcopy.CopyObject(p)
	switch {
	case p.GetDeletionTimestamp().IsZero():
		c.kinds.reportKinds(p)
		wait = c.selected.reportSelection(p)
		if claims.PermanentPolicyID(p) == "" {
			labels := map[string]string{label: uuid.NewString()}
			maps.Copy(labels, p.GetLabels())
			after.SetLabels(labels)
		}
		controllerutil.AddFinalizer(after, finalizer)
	case !controllerutil.ContainsFinalizer(p, finalizer):
	default:
		if claimed, err := c.isStillClaimed(ctx, p); claimed || err != nil {
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

// isStillClaimed reports whether an object or a binding still says that a policy claims it:
// the detector takes that off them. What nobody but a tenant can have written does not
// count, or whoever may write bindings or objects could keep the policy for ever.
func (c *PolicyController) isStillClaimed(ctx context.Context, p policy) (bool, error) {
	if claims.PermanentPolicyID(p) == "" || c.clock.Since(p.GetDeletionTimestamp().Time) >= patience {
		return false, nil
	}
	bound, err := c.bindingsOfPolicy(ctx, p)
	if err != nil {
		return false, err
	}
	if !c.templates.Synced() {
		return true, nil // as far as is known
	}
	claimed := false
	for _, b := range bound {
		key := templates.KeyOf(b.BindingSpec().Resource)
		object, _ := c.templates.Get(key)
		if !bindingKeepsPolicy(b, p, object) {
			continue
		}
		if claimed = true; !claims.PolicyClaimsObject(p, object) { // or else the detector is about to look at it
			c.changed(key)
		}
	}
	return claimed || slices.ContainsFunc(c.templates.ClaimedObjects(claims.MarksForPolicy(p).Labels), func(key templates.Key) bool {
		own := p.GetNamespace() == "" || p.GetNamespace() == key.Name.Namespace
		return own && key.Kind.Group != rbacv1.GroupName // roles may not let themselves be unmarked
	}), nil
}

// bindingKeepsPolicy reports whether a binding with the ID of a policy says that the policy claims it
// where the detector would have written that, and takes it off again: in a binding that
// stays, of an object that exists, under the name that the hub gives it.
func bindingKeepsPolicy(b lookup.Binding, p policy, object *metav1.PartialObjectMetadata) bool {
	of, is := lookup.PolicyOf(b)
	return is && of == client.ObjectKeyFromObject(p) && b.GetDeletionTimestamp().IsZero() &&
		object != nil && object.UID == b.BindingSpec().Resource.UID
}

// bindingsOfPolicy returns those that have the ID of a policy.
func (c *PolicyController) bindingsOfPolicy(ctx context.Context, p policy) ([]lookup.Binding, error) {
	by := []client.ListOption{client.MatchingFields{indexClaim: claims.PermanentPolicyID(p)}, client.InNamespace(p.GetNamespace()), client.UnsafeDisableDeepCopy}
	own := &workv1alpha2.ResourceBindingList{}
	wide := &workv1alpha2.ClusterResourceBindingList{}
	lists := []client.ObjectList{own}
	if p.GetNamespace() == "" {
		lists = append(lists, wide)
	}
	for _, list := range lists {
		if err := c.client.List(ctx, list, by...); err != nil {
			return nil, fmt.Errorf("listing the bindings of policy %q: %w", client.ObjectKeyFromObject(p), err)
		}
	}
	all := make([]lookup.Binding, 0, len(own.Items)+len(wide.Items))
	for i := range own.Items {
		all = append(all, &own.Items[i])
	}
	for i := range wide.Items {
		all = append(all, &wide.Items[i])
	}
	return all, nil
}
