// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lease detects when the heartbeat of a cluster's agent stops. It wakes
// up when a lease would run out, not periodically.
package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/hub/registration/managedcluster/grants"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=managed-cluster-lease,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters/status,verbs=patch

const (
	// GraceDurations is after how many lease durations without a heartbeat a
	// cluster is Unknown.
	GraceDurations = 5

	// secondsDefault is the lease duration where a cluster has none, which the API prevents.
	secondsDefault = 60

	fieldOwner    = "registration-controller-lease"
	reconcilesMax = 4
)

// HeartbeatController watches over the leases of clusters.
type HeartbeatController struct {
	client client.Client
	clock  clock.PassiveClock
	events events.EventRecorder
	// started is when this controller began: agents that could not renew while
	// nobody listened get one lease duration to do so.
	started time.Time

	mu sync.Mutex
	// ahead are the renewals at times that had not come, by cluster.
	ahead map[string]aheadRenewal
}

// aheadRenewal is a renewal at a time that had not come when the hub saw it.
type aheadRenewal struct{ told, seen time.Time }

// NewHeartbeatController returns the controller.
func NewHeartbeatController(c client.Client, clk clock.PassiveClock, recorder events.EventRecorder) *HeartbeatController {
	return &HeartbeatController{client: c, clock: clk, events: recorder, started: clk.Now(), ahead: map[string]aheadRenewal{}}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *HeartbeatController) ControllerName() string { return "managedcluster.lease" }

// SetupWithManager adds the controller to the manager. A renewed lease is not
// news: the timer that was set for it finds out and is set anew.
func (c *HeartbeatController) SetupWithManager(mgr ctrl.Manager) error {
	toCluster := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		if obj.GetName() != clusterv1.LeaseName {
			return nil
		}
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: obj.GetNamespace()}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named(c.ControllerName()).
		WithOptions(controller.Options{MaxConcurrentReconciles: reconcilesMax}).
		For(&clusterv1.ManagedCluster{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: affectsHeartbeat})).
		Watches(&coordinationv1.Lease{}, toCluster, builder.WithPredicates(predicate.Funcs{
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		Complete(conflict.RequeueConflicts(c))
}

func affectsHeartbeat(e event.UpdateEvent) bool {
	before, _ := e.ObjectOld.(*clusterv1.ManagedCluster)
	after, _ := e.ObjectNew.(*clusterv1.ManagedCluster)
	return before == nil || after == nil ||
		before.Spec.LeaseDurationSeconds != after.Spec.LeaseDurationSeconds ||
		isAccepted(before) != isAccepted(after) || availableStatus(before) != availableStatus(after)
}

// Reconcile finds out whether the agent of one cluster is still heard of.
func (c *HeartbeatController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mc := &clusterv1.ManagedCluster{}
	if err := c.client.Get(ctx, types.NamespacedName{Name: req.Name}, mc); err != nil {
		if apierrors.IsNotFound(err) {
			c.forgetAhead(req.Name)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	lease := &coordinationv1.Lease{}
	err := c.client.Get(ctx, types.NamespacedName{Namespace: mc.Name, Name: clusterv1.LeaseName}, lease)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, c.restoreLease(ctx, mc)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading the lease of cluster %q: %w", mc.Name, err)
	}
	duration := ClusterLeaseDuration(mc)
	now := c.clock.Now()
	if left := c.deadline(lease, duration, now).Sub(now); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	available := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	if available != nil && available.Status == metav1.ConditionUnknown {
		return ctrl.Result{RequeueAfter: duration}, nil // the agent may renew without a word and fail again
	}
	message := fmt.Sprintf("the agent has not renewed its lease for %d times its duration (%s)", GraceDurations, duration)
	conditions.SetCondition(&mc.Status.Conditions, mc.Generation, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionUnknown,
		Reason: clusterv1.ManagedClusterReasonLeaseUpdateStopped, Message: message,
	})
	own := conditions.SelectByType(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	if err := conditions.ApplyStatus(ctx, c.client, mc, fieldOwner, own, nil); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	c.events.Eventf(mc, nil, corev1.EventTypeWarning, clusterv1.ManagedClusterReasonLeaseUpdateStopped, "Watch", "%s", message)
	return ctrl.Result{RequeueAfter: duration}, nil
}

// restoreLease makes the lease of an accepted cluster again if it is missing. The
// first one comes with the permissions.
func (c *HeartbeatController) restoreLease(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if !isAccepted(mc) || !mc.DeletionTimestamp.IsZero() {
		return nil
	}
	err := CreateLease(ctx, c.client, grants.InitialLease(mc.Name, durationSeconds(mc), c.clock.Now()))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// deadline returns when the cluster is Unknown if the lease is not renewed.
func (c *HeartbeatController) deadline(lease *coordinationv1.Lease, duration time.Duration, now time.Time) time.Time {
	deadline := c.renewedAt(lease, now).Add(GraceDurations * duration)
	grace := c.started.Add(duration)
	if grace.After(deadline) {
		return grace
	}
	return deadline
}

// renewedAt returns when the lease was renewed. The agent says so; at a time that has not
// come yet it is when the hub saw that first, or else a cluster would never be missed.
func (c *HeartbeatController) renewedAt(lease *coordinationv1.Lease, now time.Time) time.Time {
	renewed := lease.CreationTimestamp.Time
	if lease.Spec.RenewTime != nil {
		renewed = lease.Spec.RenewTime.Time
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.ahead[lease.Namespace]
	if ok && known.told.Equal(renewed) {
		return known.seen
	}
	if !renewed.After(now) {
		delete(c.ahead, lease.Namespace)
		return renewed
	}
	c.ahead[lease.Namespace] = aheadRenewal{told: renewed, seen: now}
	return now
}

// forgetAhead forgets a cluster that is gone.
func (c *HeartbeatController) forgetAhead(cluster string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ahead, cluster)
}

// ClusterLeaseDuration returns the lease duration of a cluster.
func ClusterLeaseDuration(mc *clusterv1.ManagedCluster) time.Duration {
	return time.Duration(durationSeconds(mc)) * time.Second
}

func durationSeconds(mc *clusterv1.ManagedCluster) int32 {
	if mc.Spec.LeaseDurationSeconds <= 0 {
		return secondsDefault
	}
	return mc.Spec.LeaseDurationSeconds
}

func isAccepted(mc *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
}

func availableStatus(mc *clusterv1.ManagedCluster) metav1.ConditionStatus {
	if c := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable); c != nil {
		return c.Status
	}
	return ""
}
