// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package handover marks on a member that an agent is replacing another one,
// until it has taken over everything that the other one delivered. Whoever
// removes the former agent reads the mark, and leaves that alone.
//
// The mark is an AppliedManifestWork of no work, hub and agent, since that is the
// one kind that every agent may write, and every operator may read. It owns nothing.
// Package succession of the agents writes it.
package handover
