// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install is what operators are made of: an Engine walks an object
// through Phases which install what it asks for on one or more Targets, and
// through others which remove it again.
//
// A phase ends a walk by its error: a WaitError if it has to go on later, a
// MistakeError if the user has to change something, an UnreachableError if a
// Target cannot be worked on, anything else if something failed. The Engine
// writes the status once for each walk and decides when the next one is due.
//
// What is installed, and what the conditions of a kind say, is up to its
// operator: nothing here knows a Deployment or a role.
package install
