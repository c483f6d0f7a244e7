// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/written"
)

// RefreshMirror makes the ClusterConnection, in memory, the mirror of its
// ManagedCluster. What only the Cluster has stays, and so does the intent, unless
// they are those of an earlier ManagedCluster of the name. If the mirror is right,
// it does not change, not even in its resourceVersion.
func RefreshMirror(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) {
	alike := maps.Equal(connection.Labels, mc.Labels)
	if !alike {
		connection.Labels = maps.Clone(mc.Labels)
	}
	was := connection.Cluster
	if !MirrorsCluster(connection, mc) {
		was = &fleetv1alpha1.ClusterProjection{Generation: 1}
	}
	is := was.DeepCopy()
	mirrorCluster(is, mc)
	is.ID = heldIdentity(connection, mc)
	if connection.Cluster != nil && was == connection.Cluster && (!sameTaints(was.Taints, is.Taints) || endpointMoved(connection, was, is)) {
		is.Generation++
	}
	is.Generation = max(is.Generation, 1)
	if !alike || is.Generation != was.Generation || is.ID != was.ID || !sameMirror(was, is) {
		is.ResourceVersion = mc.ResourceVersion
		connection.Cluster = is
	}
}

// MirrorsCluster reports whether the ClusterConnection has the Cluster of this ManagedCluster,
// and not of an earlier one of the name.
func MirrorsCluster(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) bool {
	return connection.Cluster != nil && connection.Cluster.UID == mc.UID
}

// IsAhead reports whether a Cluster mirrors a later state of its ManagedCluster than
// this one, which comes from a cache, or another ManagedCluster.
func IsAhead(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) bool {
	if connection.Cluster == nil {
		return false
	}
	return !MirrorsCluster(connection, mc) || written.IsAfter(connection.Cluster.ResourceVersion, mc.ResourceVersion)
}

// MirrorsDiffer reports whether two states of a ManagedCluster have different mirrors. What
// agents report in between does not make a difference, nor does a heartbeat.
func MirrorsDiffer(before, after *clusterv1.ManagedCluster) bool {
	was := &fleetv1alpha1.ClusterProjection{}
	is := &fleetv1alpha1.ClusterProjection{}
	mirrorCluster(was, before)
	mirrorCluster(is, after)
	return !sameMirror(was, is) || !maps.Equal(before.Labels, after.Labels)
}

// mirrorCluster sets what is mirrored of the ManagedCluster alone.
func mirrorCluster(cluster *fleetv1alpha1.ClusterProjection, mc *clusterv1.ManagedCluster) {
	cluster.UID = mc.UID
	cluster.CreationTimestamp = mc.CreationTimestamp
	cluster.DeletionTimestamp = mc.DeletionTimestamp
	cluster.Accepted = mc.Spec.HubAcceptsClient
	cluster.APIEndpoint = reportedEndpoint(mc)
	cluster.Taints = ClusterTaints(mc.Spec.Taints)
	cluster.Conditions = mc.Status.Conditions
}

// sameMirror reports whether two mirrors say the same of a ManagedCluster. Its generation
// at the time of a condition says nothing more.
func sameMirror(a, b *fleetv1alpha1.ClusterProjection) bool {
	return a.UID == b.UID && a.Accepted == b.Accepted && a.APIEndpoint == b.APIEndpoint &&
		a.CreationTimestamp.Equal(&b.CreationTimestamp) && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.Taints, b.Taints) && slices.EqualFunc(a.Conditions, b.Conditions, sameCondition)
}

func sameCondition(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// heldIdentity returns who the hub holds the cluster for, which one Cluster only is.
func heldIdentity(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) string {
	if meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity) {
		return ""
	}
	return connection.Identity()
}
