// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package affinity decides which clusters a ClusterAffinity of the Karmada API
// selects. Policies choose clusters by it, weigh them, and say where an object
// is changed on its way.
//
// The package is pure: it has no client, no clock and no logger.
package affinity
