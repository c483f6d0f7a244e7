// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster serves Clusters from ClusterConnections.
//
// A read is one request to the hub. A write tries what it changes of the
// ManagedCluster with a dry run, then stores all of it in the ClusterConnection
// with one update: its own fields, and what the ManagedCluster has to become as
// an intent that the registration controller completes. Nothing is written twice,
// so a crash leaves nothing half done.
package cluster

// The label of a set on a ManagedCluster requires the right to join the set: the
// user's is reviewed, and the account of this program has it for all sets.
// Secrets that a Cluster refers to are copied into the namespace of the cluster,
// under these two names only; which ones may be read is up to Roles in their
// namespaces.
//
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections/status,verbs=update
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=get;create;patch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets/join,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=cluster-connection;cluster-impersonator,verbs=create;patch
