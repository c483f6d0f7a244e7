// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package teardown reports what a hub's clusters lose before the hub is removed,
// and lets their members keep what works delivered.
//
// It removes nothing itself.
package teardown
