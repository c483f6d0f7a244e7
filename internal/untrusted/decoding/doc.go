// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decoding bounds the memory that JSON of others takes once it is decoded: two bytes
// can become hundreds. It says how much that is, and has clients of an API server wait with
// what is large until there is room for it. And it bounds the time that decoding takes for all of
// those who send some: while they send more, they take turns by bytes.
//
// It limits neither how long a text may be nor what it may say.
package decoding
