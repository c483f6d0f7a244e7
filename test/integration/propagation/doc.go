// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package propagation runs the controllers of propagation against an API server,
// with agents that only say that they have applied what they were sent.
package propagation
