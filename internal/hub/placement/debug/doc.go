// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debug serves OCM's debug endpoint: which clusters a Placement would
// choose now, which filters refuse others, and by which scores.
//
// It is a process of its own, a second container beside the controller, as in
// OCM: only the replica of the controller that leads knows the fleet, but a
// Service reaches all of them, and what users send here, such as expressions
// that are costly, must not cost the controller anything. It reads, and writes
// nothing but access reviews.
package debug
