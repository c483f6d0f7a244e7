// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package requests sums up what the pods of a cluster request: on each node,
// on all of them, and without a node yet.
//
// Of a pod it keeps a few dozen bytes: where it runs, and what it requests, which
// most pods have in common with others. It does not read pods.
package requests
