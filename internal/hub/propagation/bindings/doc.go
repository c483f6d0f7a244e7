// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bindings sends the object of each binding to the clusters of the
// binding, and brings back what became of it. ResourceBindings and
// ClusterResourceBindings have one implementation.
//
// A pass over a binding (pass.go) is the sequence: schedule, deliver, aggregate,
// reflect, report.
package bindings
