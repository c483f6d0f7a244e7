// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report builds the status of a ManifestWork from the outcome of its
// manifests, within the size that the hub accepts. The same outcomes make the
// same status, so that nothing is written without a change.
//
// It writes nothing, and has no clock.
package report
