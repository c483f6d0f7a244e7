// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package work makes ManifestWorks real on a member: the part of the agent
// that applies their objects, keeps them as they are given, removes them, and
// reports.
//
// What exists on a member for a work is owned by its AppliedManifestWork, from
// the first write of each object, and the types of these objects are noted
// there before the first object of a type is written. So a new agent finds
// everything that an earlier one left, at whatever moment that stopped.
//
// One queue serves all connections. A pass over a work is a list of phases
// (plan, record, apply, prune, report); it changes the work in memory and ends
// with one write of its status. Nothing is on a timer while all is well:
// changes on the hub and on the member start a pass.
package work
