// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement contains the tests of the controller for Placements under
// stress: many clusters, moves, users who edit decisions, and a controller that
// is killed at any write.
package placement
