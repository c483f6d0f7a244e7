// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package events records events, within the API's limit on their text, and at a pace.
//
// A note of more than 1,024 bytes is refused by the API server, and whoever
// recorded it never hears of it: the event is lost when it matters most, as
// the longest notes are those about trouble. A Recorder shortens them.
//
// An event is what a component tells of a decision, so it is a line of its log, too:
// events are gone after an hour, and not everybody who reads logs may read them.
//
// What an event says, of how many objects, and how often, may be up to a user of one
// namespace, and API servers keep each for an hour. They do not look at how long the names
// are of what it is about, and client-go keeps each for some minutes. So texts are cut before
// anybody keeps them, and events of a namespace, and of all, have a pace.
//
// It neither decides what is worth an event nor counts repeated ones: the
// former is the controller's business, the latter that of client-go.
package events
