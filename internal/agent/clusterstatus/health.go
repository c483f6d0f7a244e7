// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import "time"

const (
	// persist is how long probes have to fail before the hub is told, and
	// probeAgain is the time between them meanwhile.
	persist    = 20 * time.Second
	probeAgain = 5 * time.Second
	// probeEvery is the time between probes of an API server that is well, or
	// that the hub knows not to be.
	probeEvery = 60 * time.Second
)

// probedHealth is what probes have found. It is a value: a probe makes a new one.
type probedHealth struct {
	// known is false until a probe succeeded or failures have persisted.
	known   bool
	healthy bool
	problem string
	// failing is since when probes fail; zero while they succeed.
	failing time.Time
	// next is when to probe again.
	next time.Time
}

// afterProbe returns the health after a probe.
func (h probedHealth) afterProbe(now time.Time, probe error) probedHealth {
	if probe == nil {
		return probedHealth{known: true, healthy: true, next: now.Add(probeEvery)}
	}
	h.problem = probe.Error()
	if h.failing.IsZero() {
		h.failing = now
	}
	if now.Sub(h.failing) < persist {
		h.next = now.Add(probeAgain)
		return h
	}
	h.known, h.healthy, h.next = true, false, now.Add(probeAgain)
	if now.Sub(h.failing) > 2*persist {
		h.next = now.Add(probeEvery)
	}
	return h
}
