// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// newQueue returns the queue of the controller. It has no name: a queue with one
// wakes twice a second for its metrics, which is half of what an idle agent would
// cost. Its depth, which says how much there is to do, is one of the part's MetricCollectors.
func (p *ManifestWorkPart) newQueue(
	_ string, limiter workqueue.TypedRateLimiter[Request],
) workqueue.TypedRateLimitingInterface[Request] {
	const unnamed = ""
	queue := priorityqueue.New(unnamed, func(o *priorityqueue.Opts[Request]) {
		o.Log = p.options.Logger
		o.RateLimiter = limiter
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = queue
	return queue
}
