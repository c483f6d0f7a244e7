// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding decides which clusters the object of a binding of the Karmada
// API is sent to, and how many replicas each of them gets.
//
// Compile reads a Placement once; Decide then decides for one object, in five
// steps:
//
//	group    the first group of clusterAffinities in which the object can be placed
//	filter   which clusters may be chosen (internal/scheduling/scheduler)
//	estimate how many replicas they have room for (internal/scheduling/capacity)
//	select   which of them the spreadConstraints allow (internal/scheduling/selection)
//	divide   how many replicas each gets (internal/scheduling/division)
//
// A SchedulingDecision has a verdict on every cluster. Needs and AffectedByChange tell when to
// decide again: what is divided stays where it is, although clusters come and
// capacity becomes free, until the object or the policy changes.
//
// The package is pure: it has no client, no clock and no logger.
package binding
