// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package remote is for clusters that an operator manages from another one: it
// keeps a client for each, and requests tokens of ServiceAccounts there for
// components that run elsewhere. What leads there is found out by package
// probe.
package remote
