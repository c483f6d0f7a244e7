// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install is the engine of the operators: it runs Phases that install
// what an object asks for on one or more Targets, and others that remove it
// again.
//
// A phase ends a walk by its error: a WaitError if it has to go on later, a
// MistakeError if the user has to change something, an UnreachableError if a
// Target cannot be worked on, anything else if something failed. The PhaseEngine
// writes the status once for each walk and decides when the next one is due.
//
// What is installed, and what the conditions of a kind say, is up to its
// operator: nothing here knows a Deployment or a role.
package install
