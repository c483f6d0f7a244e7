// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package connect creates the clients of an agent: for its hub, for its member,
// and for its home, where its own Secrets are.
//
// They are made to be cheap, as there is an agent for each member of a fleet:
// the schemes hold only the groups that agents use, their resources are known
// without discovery, and there is no request limit on the client's side. The
// hub's clients take over a new client certificate while they are in use.
package connect
