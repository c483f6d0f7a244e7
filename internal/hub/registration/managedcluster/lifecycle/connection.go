// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// keepsConnections reports whether the hub may keep ClusterConnections. The role of
// OCM's chart does not let its operator grant that; all clusters are Pull then,
// and what a cluster says of itself is all that is known of who it is.
func (w *clusterWriter) keepsConnections() bool {
	return w.rights.AllowsRules(rbacv1.PolicyRule{
		APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"},
		Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
	})
}

// getConnection returns the ClusterConnection of a cluster, nil if there is none.
func (w *clusterWriter) getConnection(ctx context.Context, name string) (*fleetv1alpha1.ClusterConnection, error) {
	if !w.keepsConnections() {
		return nil, nil
	}
	connection := &fleetv1alpha1.ClusterConnection{}
	err := w.client.Get(ctx, client.ObjectKey{Name: name}, connection)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return connection, wrapObjectError(err, "reading", "ClusterConnection", name)
}

// ensureConnection makes sure that an accepted cluster has a ClusterConnection, and that
// it says who the cluster is, if that is known. Of one that somebody made before
// it changes nothing: what is applied says nothing of the mode, whose default is
// Pull, so that it collides with nobody's.
func (w *clusterWriter) ensureConnection(ctx context.Context, name, id string) error {
	if !w.keepsConnections() {
		return nil
	}
	have, err := w.getConnection(ctx, name)
	if err != nil || have != nil && (id == "" || have.Identity() != "") {
		return err
	}
	metadata := map[string]any{"name": name}
	if !w.mirrored {
		metadata["labels"] = map[string]any{clusterv1.LabelClusterName: name}
	}
	if id != "" {
		metadata["annotations"] = map[string]any{fleetv1alpha1.AnnotationClusterID: id}
	}
	want := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "spec": map[string]any{}}}
	want.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("ClusterConnection"))
	err = w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(fieldOwner), client.ForceOwnership)
	return wrapObjectError(err, "applying", "ClusterConnection", name)
}

// podCounts reports whether agents are to count what pods request, as the hub places
// replicas by it.
type podCounts bool

// requestPodCounts asks the agent of a cluster to count, or no longer. A Cluster asks for that
// anyway.
func (p podCounts) requestPodCounts(ctx context.Context, w *clusterWriter, name string) error {
	if !w.keepsConnections() || w.mirrored {
		return nil
	}
	have, err := w.getConnection(ctx, name)
	if err != nil {
		return err
	}
	by := ""
	if have != nil {
		by = have.Annotations[fleetv1alpha1.AnnotationCountPods]
	}
	if bool(p) == (by != "") || !bool(p) && by != fleetv1alpha1.AskedByPropagation {
		return nil // it is so, or a user asks
	}
	metadata := map[string]any{"name": name}
	if p {
		metadata["annotations"] = map[string]any{fleetv1alpha1.AnnotationCountPods: fleetv1alpha1.AskedByPropagation}
	}
	want := &unstructured.Unstructured{Object: map[string]any{"metadata": metadata, "spec": map[string]any{}}}
	want.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("ClusterConnection"))
	err = w.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), client.FieldOwner(fieldOwner+"-pods"))
	return wrapObjectError(err, "applying", "ClusterConnection", name)
}

// deleteConnection removes the ClusterConnection of a cluster that is being deleted. The cache may still
// have a cluster that is gone: the connection is then that of the next one of the name.
func (w *clusterWriter) deleteConnection(ctx context.Context, mc *clusterv1.ManagedCluster) error {
	connection, err := w.getConnection(ctx, mc.Name)
	if err != nil || connection == nil {
		return err
	}
	live := &clusterv1.ManagedCluster{}
	err = w.live.Get(ctx, client.ObjectKeyFromObject(mc), live)
	if apierrors.IsNotFound(err) || err == nil && live.UID != mc.UID {
		return nil
	}
	if err != nil {
		return wrapObjectError(err, "reading", "ManagedCluster", mc.Name)
	}
	return w.removeObject(ctx, connection)
}

// deleteOrphanedConnection removes a ClusterConnection whose ManagedCluster is gone: one of ours, or
// one with a Cluster. One that an administrator made may be there before its
// ManagedCluster, and a Cluster in the cache before its ManagedCluster is.
func (w *clusterWriter) deleteOrphanedConnection(ctx context.Context, name string) error {
	connection, err := w.getConnection(ctx, name)
	if err != nil || connection == nil {
		return err
	}
	ours := connection.Spec.SyncMode != fleetv1alpha1.SyncModePush && connection.Labels[clusterv1.LabelClusterName] == name
	if connection.Cluster == nil && !ours {
		return nil
	}
	err = w.live.Get(ctx, client.ObjectKey{Name: name}, &clusterv1.ManagedCluster{})
	if !apierrors.IsNotFound(err) {
		return wrapObjectError(err, "reading", "ManagedCluster", name)
	}
	return w.removeObject(ctx, connection)
}

// connectionMatters passes what this controller has to look at: not what an
// agent reports, but for who its cluster is, and not what we made ourselves.
func (c *ClusterLifecycleController) connectionMatters(ctx context.Context) predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			connection, _ := e.Object.(*fleetv1alpha1.ClusterConnection)
			if connection == nil || connection.Spec.SyncMode == fleetv1alpha1.SyncModePush || hasLimits(connection.Spec) {
				return true
			}
			mc := &clusterv1.ManagedCluster{}
			err := c.Client.Get(ctx, client.ObjectKeyFromObject(connection), mc) // from memory
			return err != nil || !mc.DeletionTimestamp.IsZero()
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, _ := e.ObjectOld.(*fleetv1alpha1.ClusterConnection)
			after, _ := e.ObjectNew.(*fleetv1alpha1.ClusterConnection)
			if before == nil || after == nil {
				return true
			}
			return !equality.Semantic.DeepEqual(before.Spec, after.Spec) || before.Identity() != after.Identity() ||
				after.Identity() == "" && before.Status.ID != after.Status.ID
		},
	}
}
