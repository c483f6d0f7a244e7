// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records events, within the API's limit on their text.
//
// A note of more than 1,024 bytes is refused by the API server, and whoever
// recorded it never hears of it: the event is lost when it matters most, as
// the longest notes are those about trouble. A Recorder shortens them.
//
// An event is what a component tells of a decision, so it is a line of its log, too:
// events are gone after an hour, and not everybody who reads logs may read them.
//
// It neither decides what is worth an event nor counts repeated ones: the
// former is the controller's business, the latter that of client-go.
package events
