// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preview predicts what would become of objects that policies send to clusters
// if what is in files were applied: policies, overrides, and the objects themselves.
//
// It reads what the hub's controllers would decide by, of objects only those that
// are concerned, and has package forecast decide.
package preview
