// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement is how a Placement is read: into a request of the scheduler,
// and the scheduler's result into conditions. The hub's controller, admission and
// the command line share it, so that they say the same.
//
// The package is pure: it has no client, no clock and no logger.
package placement
