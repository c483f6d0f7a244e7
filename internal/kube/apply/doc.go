// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apply applies manifests to a cluster.
//
// Its parts are decisions, which are pure (what a manifest is, in which order
// manifests go, whether an object is still as it was written, who owns it, what
// an error means for the user), and two small pieces of I/O: Kinds, which
// finds the resource of a kind, and Member, which writes objects by
// server-side apply and deletes them.
//
// It does not watch, does not keep state of what was applied, and knows
// nothing of ManifestWorks: the caller gives the owner that each object gets
// with its very first write.
package apply
