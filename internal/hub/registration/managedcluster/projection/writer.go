// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/projection"
)

// readCluster returns the objects of a cluster, nil for one that there is not. They come
// from the cache, unless there is an intent or the cache is behind: an earlier
// state must not be mirrored over a later one.
func (c *ClusterProjectionController) readCluster(ctx context.Context, name string) (*clusterv1.ManagedCluster, *fleetv1alpha1.ClusterConnection, error) {
	mc, connection, err := readFrom(ctx, c.Client, name)
	if err != nil || mc == nil || connection == nil || connection.Cluster == nil {
		return mc, connection, err
	}
	if connection.Cluster.Intent == nil && !projection.IsAhead(connection, mc) {
		return mc, connection, nil
	}
	return readFrom(ctx, c.Live, name)
}

func readFrom(ctx context.Context, reader client.Reader, name string) (*clusterv1.ManagedCluster, *fleetv1alpha1.ClusterConnection, error) {
	key := client.ObjectKey{Name: name}
	mc := &clusterv1.ManagedCluster{}
	connection := &fleetv1alpha1.ClusterConnection{}
	if err := reader.Get(ctx, key, mc); apierrors.IsNotFound(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading ManagedCluster %q: %w", name, err)
	}
	if err := reader.Get(ctx, key, connection); apierrors.IsNotFound(err) {
		return mc, nil, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("reading ClusterConnection %q: %w", name, err)
	}
	return mc, connection, nil
}

// createConnection makes the ClusterConnection of a ManagedCluster, unless that is about to
// go. It says nothing of the mode, whose default is Pull, so that it collides with
// nobody's; and it is not forced, so that one that was made meanwhile stays as it
// is.
func (c *ClusterProjectionController) createConnection(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	if !mc.DeletionTimestamp.IsZero() || !isNameable(mc.Name) {
		return nil
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	projection.RefreshMirror(connection, mc)
	cluster, err := runtime.DefaultUnstructuredConverter.ToUnstructured(connection.Cluster)
	if err != nil {
		return fmt.Errorf("encoding the Cluster of ManagedCluster %q: %w", mc.Name, err)
	}
	want := &unstructured.Unstructured{Object: map[string]any{"cluster": cluster, "spec": map[string]any{}}}
	want.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("ClusterConnection"))
	want.SetName(mc.Name)
	want.SetLabels(connection.Labels)
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("creating ClusterConnection %q: %w", mc.Name, err)
	}
	return nil
}

// writeConnection stores what changed of a ClusterConnection, unless somebody else wrote
// since it was read.
func (c *ClusterProjectionController) writeConnection(ctx context.Context, before, after *fleetv1alpha1.ClusterConnection) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, after, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("mirroring ManagedCluster %q into its ClusterConnection: %w", after.Name, err)
	}
	return nil
}

// applyIntent brings what an intent changes to the ManagedCluster, unless somebody else
// wrote since it was read.
func (c *ClusterProjectionController) applyIntent(ctx context.Context, mc *clusterv1.ManagedCluster, intent *fleetv1alpha1.ClusterIntent) error {
	before := mc.DeepCopy()
	projection.CompleteIntent(mc, intent)
	if equality.Semantic.DeepEqual(before, mc) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, mc, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("changing ManagedCluster %q: %w", before.Name, err)
	}
	return nil
}

// raceConflict returns a conflict if the ManagedCluster is not as it was read any more.
// Webhooks judge a change before the API server finds that it is of an earlier
// state: of two writers, the later one may be told that its change is invalid.
func (c *ClusterProjectionController) raceConflict(ctx context.Context, read *clusterv1.ManagedCluster) error {
	now := &clusterv1.ManagedCluster{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(read), now); err != nil {
		return fmt.Errorf("reading ManagedCluster %q: %w", read.Name, err)
	}
	if now.ResourceVersion == read.ResourceVersion {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Group: clusterv1.GroupName, Resource: "managedclusters"}, read.Name,
		errors.New("it has changed since it was read"))
}

// deleteCluster deletes the ManagedCluster and no later one of the name, and reads what
// is left of it.
func (c *ClusterProjectionController) deleteCluster(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	name := mc.Name
	if err := c.Client.Delete(ctx, mc, client.Preconditions{UID: &mc.UID}); err != nil {
		return fmt.Errorf("deleting ManagedCluster %q: %w", name, err)
	}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
		return fmt.Errorf("reading ManagedCluster %q: %w", name, err)
	}
	return nil
}
