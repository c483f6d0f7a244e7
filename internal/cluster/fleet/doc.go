// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fleet connects an agent to clusters and runs its parts for each of
// them.
//
// A Connection is one cluster as the agent sees it: its hub, itself, and the
// place where the agent keeps its own secrets. A Part is one thing that the
// agent does (heartbeat, status, works). The Registry brings both together: it
// engages every part for every connection, tries again when a part cannot
// start, and disengages them when the connection ends or is replaced. Pull,
// hosted and push agents differ in how they make connections, never in a part.
//
// The package does not know how a cluster joins, and does not make clients.
package fleet
