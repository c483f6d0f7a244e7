// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// SlimConnection drops from a ClusterConnection what its agent found in the
// cluster, and what the Cluster API serves of it: it is nearly all of the object,
// and few on the hub decide by it. It is a transform of caches.
func SlimConnection(obj any) (any, error) {
	if connection, ok := obj.(*fleetv1alpha1.ClusterConnection); ok {
		slimConnection(connection)
		connection.Cluster = nil
	}
	return obj, nil
}

// SlimMirror is SlimConnection for a cache of who mirrors ManagedClusters: it
// leaves what is mirrored and what is to be done, and drops what is the Cluster's
// own.
func SlimMirror(obj any) (any, error) {
	if connection, ok := obj.(*fleetv1alpha1.ClusterConnection); ok {
		slimConnection(connection)
		connection.Spec.ResourceModels = nil
		if cluster := connection.Cluster; cluster != nil {
			cluster.Annotations, cluster.ManagedFields = nil, ""
			cluster.SecretRef, cluster.ImpersonatorSecretRef = nil, nil
		}
	}
	return obj, nil
}

func slimConnection(connection *fleetv1alpha1.ClusterConnection) {
	connection.ManagedFields = nil
	connection.Status.APIEnablements = nil
	connection.Status.NodeSummary, connection.Status.ResourceSummary = nil, nil
	connection.Status.HubAuthorities = nil
}

// SlimCluster drops from a ManagedCluster what nothing on the hub decides by:
// managed fields, what kubectl applied last, and the CAs of API servers. It is a
// transform of caches.
func SlimCluster(obj any) (any, error) {
	if cluster, ok := obj.(*clusterv1.ManagedCluster); ok {
		cluster.ManagedFields = nil
		delete(cluster.Annotations, corev1.LastAppliedConfigAnnotation)
		for i := range cluster.Spec.ManagedClusterClientConfigs {
			cluster.Spec.ManagedClusterClientConfigs[i].CABundle = nil
		}
	}
	return obj, nil
}
