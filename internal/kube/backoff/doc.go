// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backoff builds the wait.Backoff of apimachinery from the two numbers
// that matter: the shortest and the longest time until a retry.
//
// It does not try anything itself, and has no opinion on what a failure is.
package backoff
