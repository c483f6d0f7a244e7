// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ocm has the tests that our API is that of Open Cluster Management:
// objects written by one are read by the other without loss, their clients work
// on our definitions, and both definitions give the same defaults and limits.
//
// It is a module of its own, so that the module
// open-cluster-management.io/api is no dependency of Capstan. Its version in
// go.mod is the one that we are compatible with.
package ocm
