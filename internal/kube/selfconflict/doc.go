// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package selfconflict slows down the writes of a process to an object that it writes
// without end, and says so.
//
// Two controllers that disagree, or a controller and somebody else who undoes what it
// writes, each write as fast as they can, and starve the API server for everybody. Where
// all clients of a process meet, in its transport, a [Damper] counts what was written to
// each object. Whoever writes an object too often gets a [HeldError], and tries again
// when it says; package conflict does that for reconcilers. Conditions show it
// ([Damper.SetupReporter]).
//
// An object that is large costs etcd all of its bytes with each write, and somebody who has
// many of them need not have one written often. So what is written in a namespace is spaced
// by its bytes, too, for all objects together; and what others report, in a status, holds up
// no change for long. Objects that are in no namespace, and are made of what is in one, count
// for it where the writer says so ([WithPayer]).
//
// The package does not know who is right, and keeps nobody from writing: it makes what
// never ends cheap. Agents do the same with the objects of a member (package apply).
package selfconflict
