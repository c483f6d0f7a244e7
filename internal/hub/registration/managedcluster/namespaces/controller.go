// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package namespaces collects, in the status of a ManagedCluster, the
// namespaces that its sets request. The agent makes them.
package namespaces

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters;managedclustersets,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters/status,verbs=patch

const fieldOwner = "registration-controller-namespaces"

// ManagedNamespaceController keeps status.managedNamespaces.
type ManagedNamespaceController struct{ client client.Client }

// NewManagedNamespaceController returns the controller.
func NewManagedNamespaceController(c client.Client) *ManagedNamespaceController {
	return &ManagedNamespaceController{client: c}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *ManagedNamespaceController) ControllerName() string { return "managedcluster.namespaces" }

// SetupWithManager adds the controller to the manager.
func (c *ManagedNamespaceController) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: changesNamespaces})).
		Watches(&clusterv1beta2.ManagedClusterSet{}, handler.EnqueueRequestsFromMapFunc(c.clustersOfSet),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Complete(conflict.RequeueConflicts(c))
}

func changesNamespaces(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*clusterv1.ManagedCluster)
	after, _ := e.ObjectNew.(*clusterv1.ManagedCluster)
	return before == nil || after == nil || !maps.Equal(before.Labels, after.Labels) ||
		before.Spec.HubAcceptsClient != after.Spec.HubAcceptsClient ||
		len(before.Status.ManagedNamespaces) != len(after.Status.ManagedNamespaces)
}

// clustersOfSet maps a set to the clusters that it selects now or selected before.
func (c *ManagedNamespaceController) clustersOfSet(ctx context.Context, obj client.Object) []reconcile.Request {
	set, ok := obj.(*clusterv1beta2.ManagedClusterSet)
	if !ok {
		return nil
	}
	list := &clusterv1.ManagedClusterList{}
	if err := c.client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only a missing cache gives an error
	}
	selector, err := view.SetSelector(set)
	if err != nil {
		selector = labels.Nothing()
	}
	var requests []reconcile.Request
	for i := range list.Items {
		mc := &list.Items[i]
		has := slices.ContainsFunc(mc.Status.ManagedNamespaces,
			func(n clusterv1.ClusterSetManagedNamespaceConfig) bool { return n.ClusterSet == set.Name })
		if has || len(set.Spec.ManagedNamespaces) > 0 && selector.Matches(labels.Set(mc.Labels)) {
			requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Name: mc.Name}})
		}
	}
	return requests
}

// Reconcile gathers the namespaces of one cluster.
func (c *ManagedNamespaceController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, req.NamespacedName, mc); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.client.List(ctx, sets, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing ManagedClusterSets: %w", err)
	}
	want := wantedNamespaces(mc, sets.Items)
	if equality.Semantic.DeepEqual(mc.Status.ManagedNamespaces, want) {
		return ctrl.Result{}, nil
	}
	// A merge patch, not an apply: the agent owns the conditions of an entry, and
	// with an apply the entry would stay as long as they do.
	before := mc.DeepCopy()
	mc.Status.ManagedNamespaces = want
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.client.Status().Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("writing the managed namespaces of ManagedCluster %q: %w", mc.Name, err)
	}
	return ctrl.Result{}, nil
}

// wantedNamespaces returns the namespaces that the sets want on the cluster, sorted, with
// the conditions that the agent gave them.
func wantedNamespaces(mc *clusterv1.ManagedCluster, sets []clusterv1beta2.ManagedClusterSet) []clusterv1.ClusterSetManagedNamespaceConfig {
	if !mc.Spec.HubAcceptsClient {
		return nil
	}
	type key struct{ set, name string }
	known := map[key][]metav1.Condition{}
	for _, n := range mc.Status.ManagedNamespaces {
		known[key{n.ClusterSet, n.Name}] = n.Conditions
	}
	var want []clusterv1.ClusterSetManagedNamespaceConfig
	for i := range sets {
		set := &sets[i]
		if len(set.Spec.ManagedNamespaces) == 0 || !set.DeletionTimestamp.IsZero() {
			continue
		}
		selector, err := view.SetSelector(set)
		if err != nil || !selector.Matches(labels.Set(mc.Labels)) {
			continue
		}
		for _, n := range set.Spec.ManagedNamespaces {
			want = append(want, clusterv1.ClusterSetManagedNamespaceConfig{
				ManagedNamespaceConfig: n, ClusterSet: set.Name, Conditions: known[key{set.Name, n.Name}],
			})
		}
	}
	slices.SortFunc(want, func(a, b clusterv1.ClusterSetManagedNamespaceConfig) int {
		return cmp.Or(cmp.Compare(a.ClusterSet, b.ClusterSet), cmp.Compare(a.Name, b.Name))
	})
	return want
}
