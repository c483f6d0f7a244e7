// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package translate is how a ClusterConnection shows as a Cluster, and what of a
// ClusterConnection a write to its Cluster changes.
//
// The package is pure: it has no client and no clock. Whether the user may write
// that, and whether it is valid, was checked before.
package translate
