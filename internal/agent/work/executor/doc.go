// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package executor checks whether the ServiceAccount that is a work's executor
// may do what the agent is about to do for the work.
//
// The API server of the member decides, by SubjectAccessReviews. Where it
// asks for more than the permission to write an object, as it does of who
// grants permissions, the write is rehearsed as the executor first, with all
// its content. The agent then writes with its own rights: an executor takes
// rights away from a work and never adds any. See docs/adr/0007-executor.md.
package executor
