// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status decides what the conditions of a ClusterManager report about a
// hub.
//
// It is pure: it neither reads clusters nor writes the status.
package status
