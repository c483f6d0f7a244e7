// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether the hub may approve the certificate request
// of an agent without asking an administrator.
//
// A certificate is a cluster's identity, so everything that names a cluster
// has to name the same one: who asks, what is asked for, the label of the
// request and the ManagedCluster. Whatever is not known to be right is left to
// an administrator, and what looks like an attack is told to them.
//
// The package decides only: it has no client, no clock and no logger.
package policy
