// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hubprobe checks, on behalf of the agents of Klusterlets, whether the
// hub accepts them: with the bootstrap kubeconfig, and with the one from their
// registration.
//
// Controller asks the hub and keeps the answers in a ResultStore; the controller of
// Klusterlets reads them there, so it never waits for the hub itself. Nothing
// here writes to any API.
package hubprobe
