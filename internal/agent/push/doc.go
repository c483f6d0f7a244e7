// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package push is the agent of all Push clusters. It runs on the hub, dials
// each cluster by its ClusterConnection and engages the same parts for it as an
// agent that runs in its cluster does for itself.
//
// Each cluster has a session: it follows the ClusterConnection, the
// ManagedCluster and the Secret, probes the API server, and says in the status
// what it found. How the API server is reached is package dial's. A new token is
// taken over in place; another endpoint, CA or proxy makes a new connection. A
// cluster that is lost gets no requests but probes: whoever asks it for something
// learns so at once, and when it is back, it is engaged again.
//
// The package does not know what its parts do for a cluster.
package push
