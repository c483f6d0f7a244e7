// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clock compares the clock of a cluster's agent with that of the hub,
// each time the agent renews its lease. If they differ too much, a heartbeat
// says nothing.
package clock

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/lease"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=managed-cluster-lease,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters/status,verbs=patch

const fieldOwner = "registration-controller-clock"

// ClusterClockController keeps the condition ManagedClusterConditionClockSynced.
type ClusterClockController struct {
	client client.Client
	clock  clock.PassiveClock
}

// NewClusterClockController returns the controller.
func NewClusterClockController(c client.Client, clk clock.PassiveClock) *ClusterClockController {
	return &ClusterClockController{client: c, clock: clk}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *ClusterClockController) ControllerName() string { return "managedcluster.clock" }

// SetupWithManager adds the controller to the manager. Only a renewal tells
// what the agent's clock says now; a lease that is merely there does not.
func (c *ClusterClockController) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		For(&coordinationv1.Lease{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			DeleteFunc: func(event.DeleteEvent) bool { return false },
			UpdateFunc: leaseRenewed,
		})).
		Complete(conflict.RequeueConflicts(c))
}

func leaseRenewed(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*coordinationv1.Lease)
	after, _ := e.ObjectNew.(*coordinationv1.Lease)
	return before != nil && after != nil && after.Name == clusterv1.LeaseName &&
		after.Spec.RenewTime != nil && !after.Spec.RenewTime.Equal(before.Spec.RenewTime)
}

// Reconcile compares the time of a renewal with the hub's.
func (c *ClusterClockController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: req.Namespace}, mc); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	heartbeat := &coordinationv1.Lease{}
	if err := c.client.Get(ctx, req.NamespacedName, heartbeat); err != nil || heartbeat.Spec.RenewTime == nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	want := compareClocks(c.clock.Now(), heartbeat.Spec.RenewTime.Time, lease.GraceDurations*lease.ClusterLeaseDuration(mc))
	have := meta.FindStatusCondition(mc.Status.Conditions, want.Type)
	if mc.Annotations[clusterv1.AnnotationSkipClockSyncCheck] == "true" {
		if have == nil || have.Status == metav1.ConditionTrue {
			return ctrl.Result{}, nil
		}
		want = skippedCondition() // or the agent would never report again
	}
	if have != nil && have.Status == want.Status && have.Reason == want.Reason {
		return ctrl.Result{}, nil
	}
	conditions.SetCondition(&mc.Status.Conditions, mc.Generation, want)
	own := conditions.SelectByType(mc.Status.Conditions, want.Type)
	return ctrl.Result{}, client.IgnoreNotFound(conditions.ApplyStatus(ctx, c.client, mc, fieldOwner, own, nil))
}

// skippedCondition takes back an earlier verdict of a cluster whose clock does not matter.
func skippedCondition() metav1.Condition {
	return metav1.Condition{
		Type: clusterv1.ManagedClusterConditionClockSynced, Status: metav1.ConditionTrue,
		Reason:  clusterv1.ManagedClusterReasonClockSynced,
		Message: "the clocks are not compared: annotation " + clusterv1.AnnotationSkipClockSyncCheck + " is set",
	}
}

func compareClocks(hub, agent time.Time, limit time.Duration) metav1.Condition {
	if hub.Sub(agent).Abs() >= limit {
		return metav1.Condition{
			Type: clusterv1.ManagedClusterConditionClockSynced, Status: metav1.ConditionFalse,
			Reason: clusterv1.ManagedClusterReasonClockOutOfSync,
			Message: fmt.Sprintf("the clocks of the hub and the cluster differ by %s or more; synchronize them, "+
				"because the hub cannot tell a dead agent from a wrong clock", limit),
		}
	}
	return metav1.Condition{
		Type: clusterv1.ManagedClusterConditionClockSynced, Status: metav1.ConditionTrue,
		Reason: clusterv1.ManagedClusterReasonClockSynced, Message: "the clocks of the hub and the cluster are in sync",
	}
}
