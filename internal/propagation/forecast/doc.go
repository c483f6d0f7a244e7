// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package forecast predicts what would become of an object of the hub if policies,
// overrides or the object itself were changed: which policy would claim it, which
// clusters it would go to, with how many replicas, and as what.
//
// It takes the steps that the hub's controllers take, with the same engine:
// claims, demand, binding, override and deliver.
//
// The package is pure.
package forecast
