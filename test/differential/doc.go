// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package differential has the tests that compare what Capstan has of its own
// with what others have for the same: the health of objects with kstatus, kubectl
// and Argo CD, and functions of CEL with those of Kubernetes. The others are asked
// themselves: nothing here repeats their rules. Where the two differ on purpose, a
// test says when and why; it fails for every other difference, and for a
// difference that no longer exists.
//
// It is a module of its own, so that Capstan depends on none of them.
package differential
