// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpret interprets objects by their kind: whether one is healthy,
// whether it has completed, which of its fields matter; how many pods it asks
// for, what of it is for a cluster, and what it needs there.
//
// What is known of a kind are Operations. They come from the layers of a Chain,
// of which the first that knows an operation answers: what a user customized,
// what Capstan ships for kinds of others, what package native knows of
// Kubernetes' own kinds. A new kind is a new entry of a layer, and a new
// operation a new field of Operations; nobody has a switch over kinds.
//
// All of it is pure: an object gives the same answer at any time. It does not
// know who asks, so there are no types of ManifestWorks or bindings here, and
// it reads no object itself.
package interpret
