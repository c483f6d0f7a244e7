// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rollout decides which clusters get a change now, and which have to
// wait for others: one engine for all that is rolled out to clusters.
//
// Decide is given the clusters in their groups, how far the change has come on
// each, and the strategy. It says on which clusters to make the change now, why
// the others wait, and when to look again although nothing happens. It keeps
// nothing between two calls, so a controller that restarts goes on where it was.
//
// The package is pure: it has no client, no clock and no logger.
package rollout
