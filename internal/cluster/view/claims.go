// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/json"
	"maps"
	"slices"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// ClaimsOf returns the claims of a cluster, by name, as they count: those that an
// administrator has pinned, and what the cluster reports besides.
func ClaimsOf(cluster *clusterv1.ManagedCluster) map[string]string {
	return claimsWithPinned(cluster, PinnedClaims(cluster))
}

// claimsWithPinned returns what the cluster reports, and the pinned claims over it.
func claimsWithPinned(cluster *clusterv1.ManagedCluster, pinned map[string]string) map[string]string {
	claims := make(map[string]string, len(cluster.Status.ClusterClaims)+len(pinned))
	for _, claim := range cluster.Status.ClusterClaims {
		claims[claim.Name] = claim.Value
	}
	maps.Copy(claims, pinned)
	return claims
}

// PinnedClaims returns the claims that an administrator has pinned, by name. The hub
// writes the annotation that has them and mends it; one that cannot be read has none.
func PinnedClaims(cluster *clusterv1.ManagedCluster) map[string]string {
	var pinned map[string]string
	if text, ok := cluster.Annotations[fleetv1alpha1.AnnotationPinnedClaims]; ok && json.Unmarshal([]byte(text), &pinned) != nil {
		return nil
	}
	return pinned
}

// withPinnedClaims returns the cluster with its claims as they count, which is the
// cluster itself if none are pinned.
func withPinnedClaims(cluster *clusterv1.ManagedCluster) *clusterv1.ManagedCluster {
	pinned := PinnedClaims(cluster)
	if len(pinned) == 0 {
		return cluster
	}
	claims := claimsWithPinned(cluster, pinned)
	cluster = cluster.DeepCopy()
	cluster.Status.ClusterClaims = nil
	for _, name := range slices.Sorted(maps.Keys(claims)) {
		cluster.Status.ClusterClaims = append(cluster.Status.ClusterClaims, clusterv1.ManagedClusterClaim{Name: name, Value: claims[name]})
	}
	return cluster
}
