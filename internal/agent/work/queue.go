// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// newQueue returns the queue of the controller. It has no name: a queue with one
// wakes twice a second for its metrics, which is half of what an idle agent would
// cost. Its depth, which says how much there is to do, is the part's Collector.
func (p *Part) newQueue(
	_ string, limiter workqueue.TypedRateLimiter[Request],
) workqueue.TypedRateLimitingInterface[Request] {
	const unnamed = ""
	queue := priorityqueue.New(unnamed, func(o *priorityqueue.Opts[Request]) {
		o.Log, o.RateLimiter = p.options.Logger, limiter
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = queue
	return queue
}

// Collector returns the metric capstan_work_queue_depth: how many works wait.
func (p *Part) Collector() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "capstan_work_queue_depth",
		Help: "ManifestWorks that wait for the agent, of all clusters that it works for.",
	}, p.depth)
}

// depth is 0 before the part starts.
func (p *Part) depth() float64 {
	p.mu.Lock()
	queue := p.queue
	p.mu.Unlock()
	if queue == nil {
		return 0
	}
	return float64(queue.Len())
}
