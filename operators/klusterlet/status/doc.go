// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status decides what the conditions of a Klusterlet report: the
// progress of the join, and whether its agents are running.
//
// It is pure: it neither reads clusters nor writes the status.
package status
