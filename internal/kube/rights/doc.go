// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package rights checks what an account may do, so that a program does what its
// role allows instead of failing on what it does not.
//
// Kubernetes lets nobody grant what he does not hold. An operator that runs
// under a role of somebody else's therefore grants the part of a role that it
// holds; what has to do without the rest is for its caller to say. Rights
// decide nothing themselves: the API server still has the last word.
package rights
