// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// workState is what capstan_works counts a work as.
type workState uint32

// A work without a state is not counted: there is only a record of it.
const (
	stateNone workState = iota
	statePending
	stateApplied
	stateAvailable
	stateFailed
	stateSuspended
	stateDeleting
	statesEnd
)

func (s workState) String() string {
	return [statesEnd]string{"", "pending", "applied", "available", "failed", "suspended", "deleting"}[s]
}

// stateOf returns what a work is after a pass, by its status as the pass left it.
func stateOf(work *workv1.ManifestWork, status *workv1.ManifestWorkStatus) workState {
	applied := meta.FindStatusCondition(status.Conditions, workv1.ManifestWorkConditionApplied)
	switch {
	case work.DeletionTimestamp != nil:
		return stateDeleting
	case plan.IsSuspended(work):
		return stateSuspended
	case applied == nil || applied.ObservedGeneration != work.Generation:
		return statePending
	case applied.Status != metav1.ConditionTrue:
		return stateFailed
	case meta.IsStatusConditionTrue(status.Conditions, workv1.ManifestWorkConditionAvailable):
		return stateAvailable
	}
	return stateApplied
}

// waitStart is a time that something waits since; zero is none. It is safe for
// concurrent use.
type waitStart struct{ nanos atomic.Int64 }

// markStart notes the time, unless something waits for longer.
func (m *waitStart) markStart(now time.Time) { m.nanos.CompareAndSwap(0, now.UnixNano()) }

// takeStart returns since when something waits, and forgets it.
func (m *waitStart) takeStart() (since time.Time, waits bool) {
	nanos := m.nanos.Swap(0)
	return time.Unix(0, nanos), nanos != 0
}

// deliveryMetrics measures deliveries, of whatever cluster and work.
type deliveryMetrics struct {
	clock       clock.PassiveClock
	applied     prometheus.Histogram
	reported    prometheus.Histogram
	corrections prometheus.Counter
	delayed     prometheus.Counter
	// dropped are Events and lines of the log.
	dropped prometheus.Counter
}

// latencyBuckets are buckets from 10 ms to 11 minutes.
func latencyBuckets() []float64 { return prometheus.ExponentialBuckets(0.01, 2, 17) }

func newDeliveryMetrics(clk clock.PassiveClock) *deliveryMetrics {
	return &deliveryMetrics{
		clock: clk,
		applied: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "capstan_work_apply_latency_seconds",
			Help:    "Time from when the agent saw a change of a ManifestWork until all of its objects were applied.",
			Buckets: latencyBuckets(),
		}),
		reported: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "capstan_work_status_latency_seconds",
			Help:    "Time from when objects were applied, or changed on the member, until the hub had the status of the ManifestWork.",
			Buckets: latencyBuckets(),
		}),
		corrections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "capstan_work_drift_corrections_total",
			Help: "Objects that somebody changed or deleted on the member, and that were put back.",
		}),
		delayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "capstan_work_reports_delayed_total",
			Help: "Passes over a ManifestWork that left the hub with its last status for now, as many bytes were written about the work, or about the works of its cluster.",
		}),
		dropped: events.NewDropCounter(),
	}
}

// latencyTimes are since when a work waits for what is measured.
type latencyTimes struct {
	// spec is when a change of the work was seen that is not applied yet.
	spec waitStart
	// member is when something changed on the member that the hub was not told yet.
	member waitStart
}

// passTimes are the times of one pass.
type passTimes struct {
	// member is when the earliest change on the member was that the pass tells of;
	// zero if there is none, or the hub was told.
	member time.Time
	// applied is when the pass was done with the objects.
	applied time.Time
}

// beginPass takes up what the pass is going to tell the hub.
func (t *latencyTimes) beginPass() (m passTimes) {
	if since, waits := t.member.takeStart(); waits {
		m.member = since
	}
	return m
}

// giveBack keeps what a pass did not tell.
func (t *latencyTimes) giveBack(m passTimes) {
	if !m.member.IsZero() {
		t.member.markStart(m.member)
	}
}

// statusChange are what a work is by the status that it had and by the one that the hub has
// now, which was written if they differ in anything.
type statusChange struct {
	before, after workState
	written       bool
}

// observeLatencies is called when the hub has the status that a pass found.
func (m *deliveryMetrics) observeLatencies(t *latencyTimes, pass *passTimes, n statusChange) {
	if isDelivered(n.after) && !pass.applied.IsZero() {
		// A work that had been applied when the agent started is no news.
		if since, waits := t.spec.takeStart(); waits && !isDelivered(n.before) {
			m.applied.Observe(pass.applied.Sub(since).Seconds())
		}
	}
	from := pass.member
	if pass.member = (time.Time{}); from.IsZero() {
		from = pass.applied
	}
	if n.written && !from.IsZero() {
		m.reported.Observe(m.clock.Since(from).Seconds())
	}
}

func isDelivered(s workState) bool { return s == stateApplied || s == stateAvailable }

// MetricCollectors returns the metrics of the part.
func (p *ManifestWorkPart) MetricCollectors() []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "capstan_work_queue_depth",
			Help: "ManifestWorks that wait for the agent, of all clusters that it works for.",
		}, p.queueDepth),
		metrics.NewComputedGauge(metrics.Definition{
			Name:   "capstan_works",
			Help:   "Number of ManifestWorks of the agent by state, of which each has one: pending (not looked at yet in this generation), failed (not all objects could be applied), applied (but not available), available, suspended, deleting.",
			Labels: []string{"state"},
		}, p.countWorks),
		p.meter.applied, p.meter.reported, p.meter.corrections, p.meter.delayed, p.meter.dropped,
	}
}

// queueDepth is 0 before the part starts.
func (p *ManifestWorkPart) queueDepth() float64 {
	p.mu.Lock()
	queue := p.queue
	p.mu.Unlock()
	if queue == nil {
		return 0
	}
	return float64(queue.Len())
}

// countWorks counts what is remembered of the works, since the cache has them
// compressed.
func (p *ManifestWorkPart) countWorks(_ context.Context, set metrics.SetValue) error {
	p.mu.Lock()
	clusters := make([]*engagedCluster, 0, len(p.clusters))
	for _, s := range p.clusters {
		clusters = append(clusters, s)
	}
	p.mu.Unlock()
	var counts [statesEnd]int
	for _, s := range clusters {
		s.mu.Lock()
		for _, m := range s.memories {
			counts[m.state.Load()]++
		}
		s.mu.Unlock()
	}
	for state := stateNone + 1; state < statesEnd; state++ {
		set(float64(counts[state]), state.String())
	}
	return nil
}
