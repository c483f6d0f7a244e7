// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deliver makes the works by which the object of a binding goes to the
// clusters: one ManifestWork for each, with the object as that cluster gets it.
//
// The package is pure.
package deliver
