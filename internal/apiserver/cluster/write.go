// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/secretcopy"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/cluster/projection"
)

// clusterWriter writes to the hub what becomes of a Cluster.
type clusterWriter struct {
	hub     *hubStore
	secrets secretcopy.SecretCopier
	rights  requesterRights
	// newID returns a new id for an intent.
	newID func() string
	clock clock.PassiveClock
	// loop looks at the Clusters whose Secrets do not exist yet.
	loop *secretcopy.CopyLoop
}

// storeCluster is the story of a write: may the user do that, would the ManagedCluster
// take it, are the Secrets where they are needed or waited for, and then the one write.
func (w *clusterWriter) storeCluster(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, cluster *v1alpha1.Cluster, dryRun []string) (*v1alpha1.Cluster, error) {
	before := translate.ClusterFromConnection(connection)
	if err := w.rights.checkUpdate(ctx, before, cluster, connection); err != nil {
		return nil, err
	}
	if err := w.dryRunChange(ctx, connection, translate.IntentDifference(before, cluster)); err != nil {
		return nil, err
	}
	if err := translate.StoreCluster(connection, cluster, w.newID()); err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	begun := secretcopy.BegunReferences(before, cluster)
	if len(begun) > 0 { // none is written for a Cluster that the hub does not take
		if _, err := w.hub.connections.Update(ctx, connection, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager}); err != nil {
			return nil, translateHubError(err, cluster.Name)
		}
	}
	missing, err := w.copySecrets(ctx, before, cluster, dryRun)
	if err != nil {
		return nil, err
	}
	recordAwaited(connection, begun, missing)
	stored, err := w.hub.connections.Update(ctx, connection, metav1.UpdateOptions{DryRun: dryRun, FieldManager: fieldManager})
	if err != nil {
		return nil, translateHubError(err, cluster.Name)
	}
	w.watchAwaitedSecrets(stored, dryRun)
	return translate.ClusterFromConnection(stored), nil
}

// fieldManager is that of this program on the hub.
const fieldManager = "capstan-apiserver"

// dryRunChange asks the hub whether the ManagedCluster would take a change of its labels
// and taints, so that the user hears what is wrong with it. An intent that the
// hub has completed already is dropped from the connection, but for a deletion,
// which comes last: what it says must not be done again.
func (w *clusterWriter) dryRunChange(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, change fleetv1alpha1.ClusterIntent) error {
	if equality.Semantic.DeepEqual(change, fleetv1alpha1.ClusterIntent{}) {
		return nil
	}
	mc, err := w.hub.clusters.Get(ctx, connection.Name, metav1.GetOptions{})
	if err != nil {
		return translateHubError(err, connection.Name)
	}
	if mc.UID != connection.Cluster.UID {
		return conflictError(connection.Name)
	}
	if earlier := connection.Cluster.Intent; earlier != nil && projection.IntentCompleted(mc, earlier) {
		connection.Cluster.Intent = &fleetv1alpha1.ClusterIntent{Delete: earlier.Delete, Force: earlier.Force}
	}
	if len(change.Labels)+len(change.RemovedLabels)+len(change.Taints)+len(change.RemovedTaints) == 0 {
		return nil
	}
	patch, err := managedClusterPatch(mc, change)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	_, err = w.hub.clusters.Patch(ctx, mc.Name, types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: fieldManager})
	switch {
	case err == nil:
		return nil
	case w.changedSinceRead(ctx, mc):
		return conflictError(connection.Name) // the hub refused what was made of an earlier state
	default:
		return translateHubError(err, connection.Name)
	}
}

// changedSinceRead reports whether the ManagedCluster has changed since it was read.
func (w *clusterWriter) changedSinceRead(ctx context.Context, read *clusterv1.ManagedCluster) bool {
	now, err := w.hub.clusters.Get(ctx, read.Name, metav1.GetOptions{})
	return err == nil && now.ResourceVersion != read.ResourceVersion
}

// managedClusterPatch returns the merge patch that changes labels and taints of a
// ManagedCluster, and of no other one of its name.
func managedClusterPatch(mc *clusterv1.ManagedCluster, change fleetv1alpha1.ClusterIntent) ([]byte, error) {
	projection.CompleteIntent(mc, &fleetv1alpha1.ClusterIntent{Taints: change.Taints, RemovedTaints: change.RemovedTaints})
	labels := map[string]any{}
	for _, key := range change.RemovedLabels {
		labels[key] = nil
	}
	for key, value := range change.Labels {
		labels[key] = value
	}
	patch := map[string]any{"metadata": map[string]any{"uid": mc.UID, "labels": labels}}
	if len(change.Taints)+len(change.RemovedTaints) > 0 {
		patch["spec"] = map[string]any{"taints": mc.Spec.Taints}
	}
	encoded, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode the change of ManagedCluster %q: %w", mc.Name, err)
	}
	return encoded, nil
}
