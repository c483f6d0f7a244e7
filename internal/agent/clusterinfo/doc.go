// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterinfo reports to the hub what the cluster is: its identity, its
// version, the APIs that it serves, and its nodes with their resources. All of
// it goes into the status of the ClusterConnection.
//
// Nodes and version come from watches that the agent has anyhow. The APIs are
// looked at once in a while, by requests that cost nothing while nothing
// changes. The hub is written to when something changed, and not more often than
// every few seconds. A hub that does not know the kind, as OCM's, or does not let
// the agent use it, is asked again more and more rarely.
package clusterinfo
