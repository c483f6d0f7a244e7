// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trace follows an object of the hub to the clusters: over the policy
// that claims it, its binding, and its works, to what the clusters say of it. At
// each step it shows the state, and the reason.
//
// Read asks the hub, and BuildTrace, which is pure, makes of it what there is to say.
package trace
