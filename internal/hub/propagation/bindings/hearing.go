// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"sync"
	"time"
)

const (
	// heardAtOnce is how many changes of a cluster in a row bring bindings back at once, and
	// heardEvery how long it takes until one more does.
	heardAtOnce = 10
	heardEvery  = time.Minute
)

// clusterThrottle says when bindings are looked at for what a cluster says now. Its agent can say
// something else as often as it likes, and all bindings of the cluster would be looked at
// each time, before those that tenants have changed. The zero value has heard nobody; it is
// safe for concurrent use.
type clusterThrottle struct {
	mu       sync.Mutex
	clusters map[reportTopic]*throttleBudget
}

// reportTopic is what a cluster says something about: whether it is available, or anything else.
// Who says much of the latter, such as how much room there is, is not to be heard later when
// it is about to fail.
type reportTopic struct {
	cluster      string
	availability bool
}

// throttleBudget is how many changes are still heard at once, and since when one more is earned.
type throttleBudget struct {
	left  int
	since time.Time
}

// throttleDelay returns how long to wait with a change that comes now. What comes meanwhile is heard
// together with it.
func (h *clusterThrottle) throttleDelay(of reportTopic, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clusters == nil {
		h.clusters = map[reportTopic]*throttleBudget{}
	}
	a := h.clusters[of]
	if a == nil {
		a = &throttleBudget{left: heardAtOnce, since: now}
		h.clusters[of] = a
	}
	earned := int(now.Sub(a.since) / heardEvery)
	a.since = a.since.Add(time.Duration(earned) * heardEvery)
	if a.left += earned; a.left >= heardAtOnce {
		a.left = heardAtOnce
		a.since = now
	}
	if a.left == 0 {
		return a.since.Add(heardEvery).Sub(now)
	}
	a.left--
	return 0
}

// forgetCluster forgets a cluster that is gone.
func (h *clusterThrottle) forgetCluster(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, availability := range []bool{true, false} {
		delete(h.clusters, reportTopic{cluster, availability})
	}
}
