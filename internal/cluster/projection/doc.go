// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package projection is how a ManagedCluster shows in the Cluster API, and how a
// write to a Cluster changes a ManagedCluster.
//
// The package is pure: it has no client and no clock. Who may write what is for
// the Cluster API to decide, before it stores an intent.
package projection
