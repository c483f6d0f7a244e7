// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights keeps the ClusterRole by which the propagation controller may
// read and write what policies select: exactly the kinds that they select now,
// and those that objects of these kinds refer to, if a policy sends these along.
//
// The controller may change this ClusterRole and no other one. What it may write
// there is limited by a fence, which it cannot move.
package rights
