// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhook holds the hub's admission webhooks, one folder for each API
// group, and what they share: access reviews and the process that serves them.
//
// The rules of a group are functions without I/O, in files of their own; the
// handlers gather what the rules need and turn a broken rule into an answer
// that says what to do. Webhooks read the API server live and hold no caches:
// they are asked seldom and have to be small.
package webhook
