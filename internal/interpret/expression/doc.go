// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package expression evaluates CEL expressions that users write, with the
// functions that they have in Kubernetes.
//
// Whatever an expression says, and whatever it is given, it is bounded in time
// and memory: by the limits of CEL, by a price for each call that grows with
// what the call reads and makes (cost.go), by a count of iterations (loops.go),
// and by functions that look at what they are given before they work on it
// (text.go, guard.go). CEL knows what a call cost only after it, and interrupts
// none.
//
// It does not know what expressions are for: the variables, and what a result
// means, are their user's.
package expression
