// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration is the hub's side of registering clusters: it lets them
// in and out, approves their certificates, watches over their leases and keeps
// their sets. Each concern has a folder of its own; this package puts them into
// one manager.
package registration
