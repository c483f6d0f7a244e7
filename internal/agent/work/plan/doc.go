// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan says what there is to do for a ManifestWork: which objects its
// manifests are, in which order and how they are applied, what is to become
// of objects that it had before, and what it asks to be told about them.
//
// A plan is made of the work and of what was done before, and holds what came
// of each manifest until that is reported. It neither reads nor writes a
// cluster, and has no clock.
package plan
