// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package registration is the hub's side of registering clusters: it accepts
// and removes them, approves their certificates, watches their Leases and
// maintains their sets. Each concern has a folder of its own; this package puts
// them into one manager.
package registration
