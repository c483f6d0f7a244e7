// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement chooses clusters for Placements and writes the choice into
// PlacementDecisions.
//
// The choice itself is made by the scheduler, and internal/scheduling/placement says how a
// Placement is read. What is here is how clusters are divided into
// PlacementDecisions (slices.go) and how these are written (moves.go), and which
// Placements a change of a cluster brings back (model.go).
package placement
