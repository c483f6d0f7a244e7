// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package work reconciles ManifestWorks on a member: the part of the agent that
// applies their objects, corrects drift, removes them, and reports.
//
// What exists on a member for a work is owned by its AppliedManifestWork, from
// the first write of each object, and the types of these objects are noted
// there before the first object of a type is written. So a new agent finds
// everything that an earlier one left, at whatever moment that stopped.
//
// One queue serves all connections. A pass over a work is a list of phases
// (prepare, note, apply, prune, observe, report, list), each of which is a call
// into one of the packages below this one; what they find out is in the plan of
// the work, and goes to the hub in one write. Nothing is on a timer while all
// is well: changes on the hub and on the member start a pass.
package work
