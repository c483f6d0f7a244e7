// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package staged decides which clusters get a change of the objects of a rollout
// now, and which have to wait: package rollout for several objects at a time. A
// cluster is healthy when all objects are that it has.
//
// The package is pure.
package staged
