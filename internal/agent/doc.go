// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agent is the agent of one cluster that connects to its hub: it
// combines the handshake (join), the Registry of fleet, and the parts.
//
// The parts of registration are made here. Others, such as that for works, are
// given by the command, so that one process can have them all (Singleton) or
// each its own (Default).
package agent
