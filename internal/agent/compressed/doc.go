// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package compressed is the cache of an agent in which ManifestWorks and
// AppliedManifestWorks are compressed while they are not in use: only what is
// needed to detect changes stays readable.
//
// An object is compressed when it comes into the cache. A ObjectStore, which knows its
// type, is the only reader: it decompresses what it gives out, and that is
// forgotten with its reader. Through the cache itself these types cannot be
// read, and the client that belongs to it has to ask the server for them, so
// nobody takes an object without its content for one that has none.
//
// The package does not decide what an agent caches, nor how long.
package compressed
