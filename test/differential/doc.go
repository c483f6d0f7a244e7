// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package differential has the tests that compare what Capstan has of its own
// with what others have for the same: the health of objects with kstatus, and
// functions of CEL with those of Kubernetes. Where the two differ on purpose, a
// test says when and why; it fails for every other difference, and for a
// difference that is none any more.
//
// It is a module of its own, so that kstatus is no dependency of Capstan.
package differential
