// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package builtin maintains the sets that every hub has: global, with all
// clusters, and default, with those that are in no other.
package builtin

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets,verbs=get;list;watch;create;patch

const fieldOwner = "registration-controller-builtin-sets"

// PredefinedSetController makes the built-in sets and undoes changes of what they select.
type PredefinedSetController struct {
	client client.Client
	want   map[string]clusterv1beta2.ManagedClusterSelector
}

// NewPredefinedSetController returns the controller. The default set is kept only if it is asked for
// (feature gate DefaultClusterSet).
func NewPredefinedSetController(c client.Client, defaultSet bool) *PredefinedSetController {
	want := map[string]clusterv1beta2.ManagedClusterSelector{
		clusterv1.GlobalClusterSet: {
			SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: &metav1.LabelSelector{},
		},
	}
	if defaultSet {
		want[clusterv1.DefaultClusterSet] = clusterv1beta2.ManagedClusterSelector{
			SelectorType: clusterv1beta2.SelectorTypeExclusiveClusterSetLabel,
		}
	}
	return &PredefinedSetController{client: c, want: want}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *PredefinedSetController) ControllerName() string { return "managedclusterset.builtin" }

// SetupWithManager adds the controller to the manager. The sets are looked at
// once at the start, and then when something happens to them.
func (c *PredefinedSetController) SetupWithManager(mgr ctrl.Manager) error {
	ours := predicate.NewPredicateFuncs(func(obj client.Object) bool { _, ok := c.want[obj.GetName()]; return ok })
	start := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for name := range c.want {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
		}
		return nil
	})
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&clusterv1beta2.ManagedClusterSet{}, builder.WithPredicates(ours,
			predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		WatchesRawSource(start).
		Complete(conflict.RequeueConflicts(c))
}

// Reconcile makes or mends one built-in set.
func (c *PredefinedSetController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	want, ok := c.want[req.Name]
	if !ok {
		return ctrl.Result{}, nil
	}
	set := &clusterv1beta2.ManagedClusterSet{}
	err := c.client.Get(ctx, req.NamespacedName, set)
	if apierrors.IsNotFound(err) {
		set = &clusterv1beta2.ManagedClusterSet{
			ObjectMeta: metav1.ObjectMeta{Name: req.Name},
			Spec:       clusterv1beta2.ManagedClusterSetSpec{ClusterSelector: want},
		}
		if err := c.client.Create(ctx, set, client.FieldOwner(fieldOwner)); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, fmt.Errorf("creating ManagedClusterSet %q: %w", req.Name, err)
		}
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading ManagedClusterSet %q: %w", req.Name, err)
	}
	if !set.DeletionTimestamp.IsZero() || set.Annotations[clusterv1.AnnotationAutoUpdate] == "false" ||
		equality.Semantic.DeepEqual(set.Spec.ClusterSelector, want) {
		return ctrl.Result{}, nil
	}
	before := set.DeepCopy()
	set.Spec.ClusterSelector = want
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Patch(ctx, set, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("resetting the selector of ManagedClusterSet %q: %w", req.Name, err)
	}
	return ctrl.Result{}, nil
}
