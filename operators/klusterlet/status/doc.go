// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status decides what the conditions of a Klusterlet say: how far the
// member is with joining its hub, and whether its agents run.
//
// It is pure: it neither reads clusters nor writes the status.
package status
