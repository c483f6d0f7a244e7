// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replace builds what an object is replaced with as a whole where server-side apply
// cannot make it what its manifest says: the manifest, with what of the object is somebody
// else's.
//
// Non-goal: it sends nothing, and decides nothing about when to replace an object.
package replace
