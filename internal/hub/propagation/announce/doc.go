// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package announce records what becomes of objects on their way to clusters as the
// Events that users of Karmada wait for: on the object, on its binding, and on its
// Works.
//
// Most of them follow from what the hub has stored: a watch compares each binding
// and each work with what it was before. Controllers add what is not stored. An
// event is about a change: what was said last of the same subject is not said
// again. Nobody waits for events to be written. When more happens in a namespace, or
// in all, than the hub is to be burdened with, they are lost.
package announce
