// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package probe checks whether a kubeconfig in a Secret works, and grants the
// required permissions: that of an agent for its hub, before and after it has
// joined, and that of an operator for a managed cluster or a hosted hub.
//
// What it says is for people and the same for the same failure. It writes to no
// API, runs no program and reads no file that a kubeconfig names.
package probe
