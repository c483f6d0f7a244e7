// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package watch notifies an owner of changes to objects of one type: the
// metadata of all that a selector matches, a single one as a whole, or what a
// function makes of each.
//
// A Watch lists and watches with the reflector of client-go, and tells its
// Handler what it finds. What the package adds to the reflector is how it
// behaves where things are not as they should be: a server that refuses is
// asked rarely and without noise in the log, what may be read but not watched
// is read again and again, and a watch that something in between cuts short is
// either resumed at once or made up for by lists. Uses counts who needs which
// watch, so that each begins with its first user and ends with its last.
//
// The package keeps no object: what is remembered of one, and who is told of
// it, is the Handler's business. It knows no kind of the API.
package watch
