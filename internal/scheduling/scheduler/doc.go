// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheduler chooses clusters, and says why.
//
// A front end compiles what a user wishes into a ClusterRequest, once for each
// generation, and then asks ScheduleClusters for a ScheduleResult as often as the fleet
// changes. A ClusterRequest passes three steps:
//
//	filter   who may be chosen: cluster sets, predicates, taints
//	score    who is better: weighted scores from -100 to 100
//	spread   how many of each zone, region or other topology
//
// There are two profiles, which have filters of their own: Compile is for
// Placements, and CompileBinding for bindings of the Karmada API. The request of
// a binding is for all clusters that may be chosen; packages selection, capacity
// and division choose among them and divide replicas.
//
// Filters, scorers and spread constraints are values in lists. A ScheduleResult has a
// Verdict for each cluster of the fleet: that it was chosen, or what said no.
//
// The package is pure: it has no client, no clock and no logger. The same input
// gives the same output, whatever the order of maps.
package scheduler
