// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"

	clientmetrics "k8s.io/client-go/tools/metrics"
)

// otherHosts is the host that requests are counted for that go to none of those
// that have a name of their own.
const otherHosts = "others"

// HostCounter counts requests by the hosts that have a name of their own in
// rest_client_requests_total, and by one name those to all others: a program that
// dials thousands of API servers would have series of each, and keep them when it
// has forgotten the server.
type HostCounter struct {
	// Next counts.
	Next clientmetrics.ResultMetric
	// Named are the hosts, with the port if there is one.
	Named map[string]bool
}

// Increment implements clientmetrics.ResultMetric.
func (h HostCounter) Increment(ctx context.Context, code, method, host string) {
	if !h.Named[host] {
		host = otherHosts
	}
	h.Next.Increment(ctx, code, method, host)
}
