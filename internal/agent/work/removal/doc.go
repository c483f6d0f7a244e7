// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package removal releases what a record owns on a member: objects that only it
// owns are deleted, orphaned, or moved to another record, and its ownership of
// others is removed. In the end the record itself goes.
//
// It does not decide what becomes of an object: package plan does.
package removal
