// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package callout calls HTTPS servers that users run and that may be slow, away or
// hostile: it sends one JSON document and returns another.
//
// A call has limits: time, the size of the answer, and how many are in progress to
// one server. A server that fails is left alone for a while, longer each time, and
// one call finds out whether it is back: who calls is told at once meanwhile, so that
// one that is away keeps nobody from other work. Connections are used again, and
// redirects are not followed. A guard keeps a call from reaching addresses that mean the
// caller itself.
//
// It does not know what the documents mean.
package callout
