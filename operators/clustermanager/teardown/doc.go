// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package teardown is about what a hub's clusters lose when the hub is removed:
// it tells the user beforehand, and lets works leave on their members what they
// delivered.
//
// It removes nothing itself.
package teardown
