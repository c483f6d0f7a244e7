// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the AppliedManifestWorks of a member: the records of
// what the agent applied there, which own the objects.
//
// A record has the types of its objects before the first object of a type is
// written, lists the objects for people and other agents, and is taken over
// from another agent only if that does not object. What is in it is found by
// any agent that comes after. It neither applies nor removes objects.
package ledger
