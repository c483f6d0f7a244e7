// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trial finds out what the hub would make of an object in a file, without
// writing it.
package trial
