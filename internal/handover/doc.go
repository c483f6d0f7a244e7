// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handover has the mark on a member by which an agent says that it takes
// the place of another one, until it has taken over all that the other one
// delivered. Whoever removes the former agent reads it, and leaves that alone.
//
// The mark is an AppliedManifestWork of no work, hub and agent, since that is the
// one kind that every agent may write, and every operator may read. It owns nothing.
// Package succession of the agents writes it.
package handover
