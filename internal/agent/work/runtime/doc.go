// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runtime has what keeps works going: the share of the queue that a
// cluster gets, who waits for what, how soon is tried again what failed, and
// the works as the hub has them. It does not know what is done for a work.
package runtime
