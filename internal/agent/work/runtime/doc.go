// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtime schedules works: the share of the queue that a cluster gets,
// dependencies, retries with backoff, and the works as they are on the hub. It
// does not know what is done for a work.
package runtime
