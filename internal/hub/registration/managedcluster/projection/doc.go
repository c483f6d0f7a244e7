// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package projection keeps, in the ClusterConnections, what the Cluster API serves
// of each ManagedCluster, and completes in the ManagedClusters what is written to
// Clusters.
//
// A write to a Cluster is one write of its ClusterConnection, with an intent for
// the ManagedCluster. This controller changes the ManagedCluster first, and then
// removes the intent and refreshes the mirror with one write more. Each of them
// fails if somebody else wrote in between, so a crash at any point leaves what the
// next reconcile completes.
package projection

// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;list;watch;patch;delete
// The hub's webhook asks for these of whoever accepts a cluster or moves it
// between sets. That the user who wrote to the Cluster has them was checked by the
// Cluster API.
// +kubebuilder:rbac:groups=register.open-cluster-management.io,resources=managedclusters/accept,verbs=update
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets/join,verbs=create
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
