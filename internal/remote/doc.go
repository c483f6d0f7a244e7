// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote is for clusters that an operator works on from another one: it
// keeps a client for each, and gets tokens of ServiceAccounts there for those
// who work on it from afar. What leads there is found out by package probe.
package remote
