// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package projection

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// Refresh makes the ClusterConnection, in memory, the mirror of its
// ManagedCluster. What only the Cluster has stays, and so does the intent, unless
// they are those of an earlier ManagedCluster of the name. If the mirror is right,
// it does not change, not even in its resourceVersion.
func Refresh(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) {
	alike := maps.Equal(connection.Labels, mc.Labels)
	if !alike {
		connection.Labels = maps.Clone(mc.Labels)
	}
	was := connection.Cluster
	if !Of(connection, mc) {
		was = &fleetv1alpha1.ClusterProjection{Generation: 1}
	}
	is := was.DeepCopy()
	mirror(is, mc)
	is.ID = identity(connection, mc)
	if connection.Cluster != nil && was == connection.Cluster && (!sameTaints(was.Taints, is.Taints) || moved(connection, was, is)) {
		is.Generation++
	}
	is.Generation = max(is.Generation, 1)
	if !alike || is.Generation != was.Generation || is.ID != was.ID || !same(was, is) {
		is.ResourceVersion = mc.ResourceVersion
		connection.Cluster = is
	}
}

// Of tells whether the ClusterConnection has the Cluster of this ManagedCluster,
// and not of an earlier one of the name.
func Of(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) bool {
	return connection.Cluster != nil && connection.Cluster.UID == mc.UID
}

// Ahead tells whether a Cluster mirrors a later state of its ManagedCluster than
// this one, which comes from a cache, or another ManagedCluster.
func Ahead(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) bool {
	if connection.Cluster == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(connection.Cluster.ResourceVersion, mc.ResourceVersion)
	return !Of(connection, mc) || err == nil && order > 0
}

// Differ tells whether two states of a ManagedCluster have different mirrors. What
// agents report in between does not make a difference, nor does a heartbeat.
func Differ(before, after *clusterv1.ManagedCluster) bool {
	was := &fleetv1alpha1.ClusterProjection{}
	is := &fleetv1alpha1.ClusterProjection{}
	mirror(was, before)
	mirror(is, after)
	return !same(was, is) || !maps.Equal(before.Labels, after.Labels)
}

// mirror sets what is mirrored of the ManagedCluster alone.
func mirror(cluster *fleetv1alpha1.ClusterProjection, mc *clusterv1.ManagedCluster) {
	cluster.UID = mc.UID
	cluster.CreationTimestamp = mc.CreationTimestamp
	cluster.DeletionTimestamp = mc.DeletionTimestamp
	cluster.Accepted = mc.Spec.HubAcceptsClient
	cluster.APIEndpoint = reportedEndpoint(mc)
	cluster.Taints = Taints(mc.Spec.Taints)
	cluster.Conditions = mc.Status.Conditions
}

// same tells whether two mirrors say the same of a ManagedCluster. Its generation
// at the time of a condition says nothing more.
func same(a, b *fleetv1alpha1.ClusterProjection) bool {
	return a.UID == b.UID && a.Accepted == b.Accepted && a.APIEndpoint == b.APIEndpoint &&
		a.CreationTimestamp.Equal(&b.CreationTimestamp) && a.DeletionTimestamp.Equal(b.DeletionTimestamp) &&
		equality.Semantic.DeepEqual(a.Taints, b.Taints) && slices.EqualFunc(a.Conditions, b.Conditions, sameCondition)
}

func sameCondition(a, b metav1.Condition) bool {
	return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message &&
		a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// identity returns who the hub holds the cluster for, which one Cluster only is.
func identity(connection *fleetv1alpha1.ClusterConnection, mc *clusterv1.ManagedCluster) string {
	if meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionDuplicateIdentity) {
		return ""
	}
	return connection.Identity()
}
