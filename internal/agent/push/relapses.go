// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"time"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// reconnectMin and reconnectMax bound the time from one connection of a cluster to the next; it
	// doubles with each.
	reconnectMin = time.Second
	reconnectMax = time.Minute
	// steady is how long after a connection the next one is no relapse any more.
	steady = 5 * time.Minute
)

// reconnectBackoff spaces the connections of one cluster. With each of them everything is listed anew
// and the hub is told, and the cluster decides how often it refuses its token for a moment and is
// well again.
type reconnectBackoff struct {
	count     int
	connected time.Time
}

// nextConnect returns when the cluster may be connected again.
func (r *reconnectBackoff) nextConnect() time.Time {
	if r.count == 0 {
		return time.Time{}
	}
	return r.connected.Add(backoff.DelayAfter(r.count, backoff.ExponentialBetween(reconnectMin, reconnectMax)))
}

// countConnection counts a connection.
func (r *reconnectBackoff) countConnection(now time.Time) {
	if now.Sub(r.connected) >= steady {
		r.count = 0
	}
	r.count++
	r.connected = now
}
