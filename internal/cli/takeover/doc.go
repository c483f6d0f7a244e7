// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package takeover counts how much of what was delivered to a cluster its new
// agent has taken over from the one before. Until that is all of it, whoever
// removes the old agent removes workloads with it.
//
// It only looks: agents take over by themselves, as docs/adr/0009 has it.
package takeover
