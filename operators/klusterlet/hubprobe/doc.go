// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hubprobe keeps track, on behalf of the agents of Klusterlets, of
// whether the hub lets them in: with the kubeconfig to join with, and with the
// one that they got by joining.
//
// Controller asks the hub and keeps the answers in a Results; the controller of
// Klusterlets reads them there, so it never waits for the hub itself. Nothing
// here writes to any API.
package hubprobe
