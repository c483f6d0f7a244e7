// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package view is the model of the fleet: what is known about each cluster, and
// which names are the same cluster.
//
// A cluster is described by two objects, its ManagedCluster and its
// ClusterConnection. Only this package knows which of them says what, and who
// is to be believed; all others ask a Cluster.
//
// The package is pure: it has no client, no clock and no logger, and it does
// not watch. Its values are recreated from objects and do not change.
package view
