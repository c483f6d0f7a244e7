// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package status decides what the conditions of a ControlPlane report. It is
// pure: it has no client and no clock.
package status
