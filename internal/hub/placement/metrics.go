// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// What the metrics that dashboards for OCM read are called there.
const (
	subsystem     = "scheduling"
	schedulerName = "placement_scheduling"
)

// schedulingMetrics tells how much the controller does, and how long it takes.
type schedulingMetrics struct {
	clock                           clock.PassiveClock
	scheduling, binding, expression *prometheus.HistogramVec
	plugins                         *prometheus.HistogramVec
	evaluations                     prometheus.Counter
	latency                         prometheus.Histogram
}

func newSchedulingMetrics(clk clock.PassiveClock) *schedulingMetrics {
	microseconds := prometheus.ExponentialBuckets(1e-6, 10, 10)
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Subsystem: subsystem, Name: name, Help: help, Buckets: microseconds}, append(labels, "name"))
	}
	return &schedulingMetrics{
		clock:      clk,
		scheduling: histogram("scheduling_duration_seconds", "Time to choose clusters for a Placement."),
		binding:    histogram("bind_duration_seconds", "Time to write the PlacementDecisions of a Placement."),
		expression: histogram("cel_runtime_duration_seconds", "Time that CEL expressions take in one choice of clusters for a Placement."),
		plugins:    histogram("plugin_duration_seconds", "Time that a filter or a prioritizer takes in one choice of clusters for a Placement.", "plugin_type", "plugin_name"),
		evaluations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "capstan_placement_evaluations_total", Help: "Number of times that clusters were chosen for a Placement.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "capstan_placement_decision_latency_seconds", Help: "Time from the event that changes a decision until the PlacementDecisions are written.",
			Buckets: prometheus.ExponentialBuckets(1e-3, 2, 16),
		}),
	}
}

// metricCollectors are the metrics to register.
func (m *schedulingMetrics) metricCollectors() []prometheus.Collector {
	return []prometheus.Collector{m.scheduling, m.binding, m.expression, m.plugins, m.evaluations, m.latency}
}

// beginEvaluation begins one choice of clusters. The observer is for the request; end
// is called when the choice is made.
func (m *schedulingMetrics) beginEvaluation() (observer scheduler.PluginObserver, end func()) {
	m.evaluations.Inc()
	start := m.clock.Now()
	expressions := time.Duration(0)
	observer = func(plugin scheduler.Plugin) func() {
		began := m.clock.Now()
		return func() {
			took := m.clock.Since(began)
			switch plugin.Kind {
			case scheduler.FilterPlugin:
				m.plugins.WithLabelValues("filter", plugin.Name, schedulerName).Observe(took.Seconds())
			case scheduler.ScorePlugin:
				name, _, _ := strings.Cut(plugin.Name, "/") // one series for all scores of add-ons
				m.plugins.WithLabelValues("prioritizer", name, schedulerName).Observe(took.Seconds())
			case scheduler.ExpressionPlugin:
				expressions += took
			}
		}
	}
	return observer, func() {
		m.scheduling.WithLabelValues(schedulerName).Observe(m.clock.Since(start).Seconds())
		if expressions > 0 {
			m.expression.WithLabelValues(schedulerName).Observe(expressions.Seconds())
		}
	}
}

// observeDecisionWrites notes that the decisions were written, after they began to be at a time
// and were waited for since another.
func (m *schedulingMetrics) observeDecisionWrites(done decisionWrites, began, since time.Time) {
	if done.isEmpty() {
		return
	}
	m.binding.WithLabelValues(schedulerName).Observe(m.clock.Since(began).Seconds())
	if !since.IsZero() {
		m.latency.Observe(m.clock.Since(since).Seconds())
	}
}

// arrivals remember since when Placements wait for a decision.
type arrivals struct {
	clock clock.PassiveClock

	mu               sync.Mutex
	waiting, running map[reconcile.Request]time.Time
}

func newArrivals(clk clock.PassiveClock) *arrivals {
	return &arrivals{clock: clk, waiting: map[reconcile.Request]time.Time{}, running: map[reconcile.Request]time.Time{}}
}

// recordArrival notes that a Placement waits from now on, unless it does already.
func (a *arrivals) recordArrival(requests ...reconcile.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for _, request := range requests {
		if _, waits := a.waiting[request]; !waits {
			a.waiting[request] = now
		}
	}
}

// takeArrival returns since when a Placement waits that is looked at now, the zero time
// if no event has asked for that. What failed before waits since then.
func (a *arrivals) takeArrival(request reconcile.Request) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	since, waits := a.waiting[request]
	delete(a.waiting, request)
	if failed, before := a.running[request]; before {
		return failed
	}
	if waits {
		a.running[request] = since
	}
	return since
}

// finishArrival notes that there is nothing left to do.
func (a *arrivals) finishArrival(request reconcile.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, request)
}

// arrivalQueue notes when events arrive. What comes back by itself or after a failure
// is none.
type arrivalQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	arrivals *arrivals
}

// newArrivalQueue returns the queue of the controller, which leaves some workers to others than
// the Placements of any one namespace.
func (a *arrivals) newArrivalQueue(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	inner := order.NewSharedQueue(name, limiter, workers, func(placement reconcile.Request) string { return placement.Namespace })
	return arrivalQueue{PriorityQueue: inner, arrivals: a}
}

// Add is part of the queue.
func (q arrivalQueue) Add(request reconcile.Request) {
	q.arrivals.recordArrival(request)
	q.PriorityQueue.Add(request)
}

// AddWithOpts is part of the queue.
func (q arrivalQueue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	if o.After == 0 && !o.RateLimited {
		q.arrivals.recordArrival(requests...)
	}
	q.PriorityQueue.AddWithOpts(o, requests...)
}
