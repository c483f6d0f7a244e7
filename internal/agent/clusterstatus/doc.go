// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterstatus reports the state of the cluster to the hub: whether
// its API server is healthy, its version, its resources and its claims.
//
// It is driven by events of the member and by a probe of the API server. All
// is in one server-side apply, and only if something changed; what changes all
// the time is spaced. A failed probe
// has to persist before the hub is told. While the hub says that the clocks
// do not agree, nothing is written.
package clusterstatus
