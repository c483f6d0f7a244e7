// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package managedclusterset selects the clusters of a ManagedClusterSet. The
// controllers about sets are in its subfolders.
package managedclusterset
