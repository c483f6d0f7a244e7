// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/projection"
)

const (
	// fieldOwner owns what is mirrored, and what intents change.
	fieldOwner = "registration-controller-projection"
	// reconcilesMax is how many clusters are worked on at once.
	reconcilesMax = 8
)

// ReasonWriteRefused is the reason of the event for a write to a Cluster that its
// ManagedCluster does not take.
const ReasonWriteRefused = "ClusterWriteRefused"

// ClusterProjectionDeps is what the controller needs.
type ClusterProjectionDeps struct {
	// Client reads from the cache, Live from the API server.
	Client client.Client
	Live   client.Reader
	Events events.EventRecorder
}

// ClusterProjectionController keeps the Cluster of every ManagedCluster.
type ClusterProjectionController struct {
	ClusterProjectionDeps
	writes *prometheus.CounterVec
}

// NewClusterProjectionController returns the controller.
func NewClusterProjectionController(d ClusterProjectionDeps) *ClusterProjectionController {
	return &ClusterProjectionController{ClusterProjectionDeps: d, writes: newWriteCounter()}
}

// RequiredRights returns the rights without which there are no Clusters.
func RequiredRights() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"},
			Verbs: []string{"get", "list", "watch", "create", "patch"},
		},
		{
			APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"},
			Verbs: []string{"get", "list", "watch", "patch", "delete"},
		},
	}
}

// ControllerName is the name of the controller in logs and metrics.
func (c *ClusterProjectionController) ControllerName() string { return "managedcluster.projection" }

// Reconcile completes what was written to one Cluster, and makes it show its
// ManagedCluster.
func (c *ClusterProjectionController) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	mc, connection, err := c.readCluster(ctx, req.Name)
	if err != nil || mc == nil {
		return ctrl.Result{}, err // the Cluster of one that is gone is removed with it
	}
	if connection == nil {
		return ctrl.Result{}, c.createConnection(ctx, mc)
	}
	before := connection.DeepCopy()
	var failed error
	if intent := intentOf(connection, mc); intent != nil {
		done, err := c.completeIntent(ctx, mc, intent)
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			return ctrl.Result{}, ignoreNotFound(err)
		}
		if done {
			projection.ClearIntent(connection, mc)
		}
		failed = err
	}
	projection.RefreshMirror(connection, mc)
	return ctrl.Result{}, errors.Join(failed, c.writeConnection(ctx, before, connection))
}

// intentOf returns what is to be done to the ManagedCluster, nil if nothing is.
func intentOf(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) *fleetv1alpha1.ClusterIntent {
	if !projection.MirrorsCluster(connection, mc) {
		return nil
	}
	return connection.Cluster.Intent
}

// completeIntent changes the ManagedCluster as the intent says, and reports whether that
// is over: one that the API server finds invalid would never be done, unless the
// ManagedCluster was another one when it was made. In memory
// the ManagedCluster is changed in any case but that, so that the Cluster goes on
// to show what was written to it.
func (c *ClusterProjectionController) completeIntent(ctx context.Context, mc *clusterv1.ManagedCluster, intent *fleetv1alpha1.ClusterIntent) (done bool, err error) {
	stored := mc.DeepCopy()
	err = c.applyIntent(ctx, mc, intent)
	if err == nil && intent.Delete && mc.DeletionTimestamp.IsZero() {
		err = c.deleteCluster(ctx, mc)
	}
	switch {
	case err == nil:
		c.writes.WithLabelValues(resultCompleted).Inc()
		return true, nil
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		if raced := c.raceConflict(ctx, stored); raced != nil {
			return false, raced
		}
		c.writes.WithLabelValues(resultDropped).Inc()
		c.warnWriteRefused(stored, err)
		*mc = *stored
		return true, nil
	case apierrors.IsForbidden(err):
		c.writes.WithLabelValues(resultForbidden).Inc()
		c.warnWriteRefused(stored, err)
	}
	return false, err
}

func (c *ClusterProjectionController) warnWriteRefused(mc *clusterv1.ManagedCluster, err error) {
	c.Events.Eventf(mc, nil, corev1.EventTypeWarning, ReasonWriteRefused, "CompleteWrite",
		"what was written to the Cluster cannot be written to the ManagedCluster: %v", err)
}

// isNameable reports whether there can be a ClusterConnection for the cluster. Without
// one there is no namespace either: the hub's webhook refuses such a name, and the
// hub never accepts it and says so in a condition.
func isNameable(cluster string) bool { return len(validation.IsDNS1123Label(cluster)) == 0 }

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("completing what was written to the Cluster: %w", err)
}
