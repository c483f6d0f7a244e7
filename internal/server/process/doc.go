// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package process combines what every process of Capstan has in common: leader
// election, health probes, metrics and TLS settings. Controllers and webhooks
// run in a manager of controller-runtime, NewManager; agents, which have no
// manager, run in ServeWhile.
//
// What it says at /healthz and /readyz has local causes only. An API server that
// is away makes no pod unready: that would stall rollouts and take endpoints
// away, and help nobody. It shows in conditions and metrics.
//
// It knows no flag and no kind of the API; those are the command's.
package process
