// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package arrivals tells the operator when a hub that it does not run on gets its
// first Push cluster, or loses its last: the push agent starts and ends with them.
//
// It is a source of the operator's controller. Whatever fails here is tried again
// for as long as the hub is there, and nobody depends on it: the operator looks
// itself every now and then.
package arrivals
