// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package push is the agent of all Push clusters. It runs on the hub, dials
// each cluster by its ClusterConnection and engages the same parts for it as an
// agent that runs in its cluster does for itself.
//
// Each cluster has a link: it follows the ClusterConnection, the ManagedCluster
// and the Secret, probes the API server, and says in the status what it found.
// A new token is taken over in place; another endpoint, CA or proxy makes a new
// connection. A cluster that is lost gets no requests but probes: whoever asks
// it for something is told so at once, and when it is back, it is engaged anew.
//
// Where to dial is said by others, so the guard looks at each address that is
// about to be dialled, after names were resolved, and a way leads to one host
// only, whatever that redirects to.
package push
