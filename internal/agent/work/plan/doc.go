// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what there is to do for a ManifestWork: which objects
// its manifests are, in which order and how they are applied, what happens to
// objects that it no longer has, and what to report about them.
//
// A plan is made of the work and of what was done before, and holds what came
// of each manifest until that is reported. It neither reads nor writes a
// cluster, and has no clock.
package plan
