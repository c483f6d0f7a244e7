// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/secretcopy"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/cluster/projection"
	fleetview "github.com/capstan-io/capstan/internal/cluster/view"
)

// createCluster checks all of a new Cluster before it writes any of it.
func (w *clusterWriter) createCluster(ctx context.Context, cluster *v1alpha1.Cluster, dryRun []string) (*v1alpha1.Cluster, error) {
	connection, mc, err := w.connectionForCreate(ctx, cluster.Name)
	if err != nil {
		return nil, err
	}
	before := &v1alpha1.Cluster{}
	if mc != nil {
		projection.RefreshMirror(connection, mc)
		warnOfInheriting(ctx, mc)
		inheritLabelsAndTaints(cluster, connection)
		before = translate.ClusterFromConnection(connection)
	}
	if err := w.rights.checkCreate(ctx, before, cluster, connection); err != nil {
		return nil, err
	}
	if mc == nil {
		mc, err = w.createManagedCluster(ctx, cluster, dryRun)
	} else {
		err = w.dryRunChange(ctx, connection, translate.IntentDifference(before, cluster))
	}
	if err != nil {
		return nil, err
	}
	missing, err := w.copySecrets(ctx, &v1alpha1.Cluster{}, cluster, dryRun)
	if err != nil {
		return nil, err
	}
	projection.RefreshMirror(connection, mc)
	id := w.newID()
	cluster.Generation = max(connection.Cluster.Generation, 1)
	if err := translate.StoreCluster(connection, cluster, id); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	recordAwaited(connection, secretcopy.BegunReferences(&v1alpha1.Cluster{}, cluster), missing)
	translate.AcceptCluster(connection, id)
	return w.writeNewConnection(ctx, connection, dryRun)
}

// writeNewConnection stores the ClusterConnection of a new Cluster, which may be there already.
func (w *clusterWriter) writeNewConnection(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, dryRun []string) (*v1alpha1.Cluster, error) {
	var stored *fleetv1alpha1.ClusterConnection
	var err error
	if connection.ResourceVersion == "" {
		stored, err = w.hub.connections.Create(ctx, connection, metav1.CreateOptions{DryRun: dryRun, FieldManager: fieldManager})
	} else {
		stored, err = w.hub.connections.Update(ctx, connection, metav1.UpdateOptions{DryRun: dryRun, FieldManager: fieldManager})
	}
	if apierrors.IsAlreadyExists(err) {
		return nil, conflictError(connection.Name) // the hub made the connection of its ManagedCluster meanwhile
	}
	if err != nil {
		return nil, translateHubError(err, connection.Name)
	}
	w.watchAwaitedSecrets(stored, dryRun)
	return translate.ClusterFromConnection(stored), nil
}

// inheritLabelsAndTaints adds the labels and taints of the ManagedCluster that a new Cluster
// takes over: those that it does not have itself stay.
func inheritLabelsAndTaints(cluster *v1alpha1.Cluster, connection *fleetv1alpha1.ClusterConnection) {
	labels := maps.Clone(connection.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, cluster.Labels)
	cluster.Labels = labels
	for _, t := range connection.Cluster.Taints {
		if !slices.ContainsFunc(cluster.Spec.Taints, func(own corev1.Taint) bool { return own.Key == t.Key && own.Effect == t.Effect }) {
			cluster.Spec.Taints = append(cluster.Spec.Taints, t)
		}
	}
}

// warnOfInheriting tells the user what the Cluster gets that somebody else has chosen, who
// need not have been allowed more than to ask to join: what chooses clusters goes by it.
func warnOfInheriting(ctx context.Context, mc *clusterv1.ManagedCluster) {
	chosen := fleetview.ChosenLabels(mc)
	for _, t := range mc.Spec.Taints {
		if t.Key != clusterv1.TaintUnreachable {
			chosen = append(chosen, "taint "+t.Key)
		}
	}
	if len(chosen) > 0 {
		warning.AddWarning(ctx, "", fmt.Sprintf("whoever has registered ManagedCluster %q has chosen what the Cluster now has as well, and decides by it what it is sent: %s",
			mc.Name, strings.Join(chosen, ", ")))
	}
}

// connectionForCreate returns the ClusterConnection that a new Cluster is to have, which may be
// new as well, and its ManagedCluster, nil if there is none. It fails if there is
// such a Cluster already.
func (w *clusterWriter) connectionForCreate(ctx context.Context, name string) (*fleetv1alpha1.ClusterConnection, *clusterv1.ManagedCluster, error) {
	connection, err := w.hub.connections.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		connection = &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	case err != nil:
		return nil, nil, translateHubError(err, name)
	case isNameTaken(connection.Cluster):
		return nil, nil, apierrors.NewAlreadyExists(clusterResource(), name)
	}
	mc, err := w.hub.clusters.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		connection.Cluster = nil // that of an earlier one
		return connection, nil, nil
	case err != nil:
		return nil, nil, translateHubError(err, name)
	case mc.DeletionTimestamp != nil || mc.Spec.HubAcceptsClient:
		return nil, nil, apierrors.NewAlreadyExists(clusterResource(), name)
	}
	return connection, mc, nil
}

// isNameTaken reports whether somebody accepted the cluster, or deletes it.
func isNameTaken(c *fleetv1alpha1.ClusterProjection) bool {
	return c != nil && (c.Accepted || c.DeletionTimestamp != nil || c.Intent != nil && (c.Intent.Accept || c.Intent.Delete))
}

// createManagedCluster creates the ManagedCluster of a new Cluster. It is not accepted yet.
func (w *clusterWriter) createManagedCluster(ctx context.Context, cluster *v1alpha1.Cluster, dryRun []string) (*clusterv1.ManagedCluster, error) {
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster.Name}}
	projection.CompleteIntent(mc, &fleetv1alpha1.ClusterIntent{Labels: cluster.Labels, Taints: cluster.Spec.Taints})
	created, err := w.hub.clusters.Create(ctx, mc, metav1.CreateOptions{DryRun: dryRun, FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		return nil, conflictError(cluster.Name)
	}
	if err != nil {
		return nil, translateHubError(err, cluster.Name)
	}
	return created, nil
}
