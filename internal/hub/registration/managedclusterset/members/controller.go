// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package members reports in the status of a ManagedClusterSet how many
// clusters are in it.
package members

import (
	"context"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
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
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters;managedclustersets,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets/status,verbs=patch;update

// window is how long changes of clusters are gathered before the sets are
// counted anew: a fleet that joins at once is one write per window, not one
// per cluster.
const window = 500 * time.Millisecond

// ClusterSetMemberController keeps the condition ClusterSetEmpty.
type ClusterSetMemberController struct{ client client.Client }

// NewClusterSetMemberController returns the controller.
func NewClusterSetMemberController(c client.Client) *ClusterSetMemberController {
	return &ClusterSetMemberController{client: c}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *ClusterSetMemberController) ControllerName() string { return "managedclusterset.members" }

// SetupWithManager adds the controller to the manager.
func (c *ClusterSetMemberController) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&clusterv1beta2.ManagedClusterSet{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.ManagedCluster{}, c.clusterHandler()).
		Complete(conflict.RequeueConflicts(c))
}

// clusterHandler enqueues the sets that a cluster enters or leaves.
func (c *ClusterSetMemberController) clusterHandler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			c.enqueueChangedSets(ctx, q, nil, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				c.enqueueChangedSets(ctx, q, e.ObjectOld, e.ObjectNew)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			c.enqueueChangedSets(ctx, q, e.Object, nil)
		},
	}
}

// enqueueChangedSets enqueues the sets that select exactly one of the two states of a cluster; nil is
// that of a cluster that does not exist.
func (c *ClusterSetMemberController) enqueueChangedSets(
	ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request], before, after client.Object,
) {
	sets := &clusterv1beta2.ManagedClusterSetList{}
	if err := c.client.List(ctx, sets, client.UnsafeDisableDeepCopy); err != nil {
		return // only a missing cache gives an error
	}
	for i := range sets.Items {
		selector, err := view.SetSelector(&sets.Items[i])
		if err != nil {
			continue // its status says so
		}
		was := before != nil && selector.Matches(labels.Set(before.GetLabels()))
		is := after != nil && selector.Matches(labels.Set(after.GetLabels()))
		if was != is {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: sets.Items[i].Name}}, window)
		}
	}
}

// Reconcile counts the clusters of one set.
func (c *ClusterSetMemberController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	set := &clusterv1beta2.ManagedClusterSet{}
	if err := c.client.Get(ctx, req.NamespacedName, set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !set.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := set.DeepCopy()
	selector, err := view.SetSelector(set)
	if err != nil {
		conditions.SetCondition(&set.Status.Conditions, set.Generation, metav1.Condition{
			Type: clusterv1beta2.ManagedClusterSetConditionEmpty, Status: metav1.ConditionTrue,
			Reason: clusterv1beta2.ManagedClusterSetReasonNoClusterMatched, Message: err.Error(),
		})
		if err := conditions.PatchStatus(ctx, c.client, before, set); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		return ctrl.Result{}, reconcile.TerminalError(err)
	}
	clusters := &clusterv1.ManagedClusterList{}
	if err := c.client.List(ctx, clusters, client.MatchingLabelsSelector{Selector: selector}, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the clusters of ManagedClusterSet %q: %w", set.Name, err)
	}
	conditions.SetCondition(&set.Status.Conditions, set.Generation, emptyCondition(len(clusters.Items)))
	return ctrl.Result{}, client.IgnoreNotFound(conditions.PatchStatus(ctx, c.client, before, set))
}

// emptyCondition returns the condition for a number of clusters. Tools print the
// message of the second.
func emptyCondition(count int) metav1.Condition {
	if count == 0 {
		return metav1.Condition{
			Type: clusterv1beta2.ManagedClusterSetConditionEmpty, Status: metav1.ConditionTrue,
			Reason: clusterv1beta2.ManagedClusterSetReasonNoClusterMatched, Message: "No ManagedCluster selected",
		}
	}
	return metav1.Condition{
		Type: clusterv1beta2.ManagedClusterSetConditionEmpty, Status: metav1.ConditionFalse,
		Reason: clusterv1beta2.ManagedClusterSetReasonClustersSelected, Message: fmt.Sprintf("%d ManagedClusters selected", count),
	}
}
