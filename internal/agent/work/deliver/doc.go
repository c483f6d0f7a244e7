// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deliver applies the objects of a work's manifests to the member: one
// type for each updateStrategy, and the steps that they share.
//
// What came of each object is in the outcome of its item. The package neither
// decides what a work wants nor removes what it does not want any more.
package deliver
