// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// contactState is how far the agent is with a cluster.
type contactState uint32

const (
	contactPending contactState = iota
	contactConnected
	contactFailed
	contactsEnd
)

func (c contactState) String() string {
	return [contactsEnd]string{"pending", "connected", "failed"}[c]
}

// connectionMetrics counts connections and why there are none. It names clusters only if it
// was asked to.
type connectionMetrics struct {
	perCluster      bool
	errors, delayed *prometheus.CounterVec
}

func newConnectionMetrics(perCluster bool) *connectionMetrics {
	return &connectionMetrics{
		perCluster: perCluster,
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capstan_push_connection_errors_total",
			Help: "Failed attempts to connect to a Push cluster, by reason as in conditions Connected and CredentialsValid of ClusterConnections. What is not an attempt counts when it begins, such as a Secret that is missing. The label cluster is empty without --metrics-per-cluster.",
		}, []string{"reason", "cluster"}),
		delayed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capstan_push_responses_delayed_total",
			Help: "Reads of responses of Push clusters that waited, as the responses of the cluster had more bytes than are decoded of one cluster in the time. The label cluster is empty without --metrics-per-cluster.",
		}, []string{"cluster"}),
	}
}

// clusterLabel is the value of the label cluster.
func (m *connectionMetrics) clusterLabel(cluster string) string {
	if m.perCluster {
		return cluster
	}
	return ""
}

// forgetCluster drops what names a cluster that is gone.
func (m *connectionMetrics) forgetCluster(cluster string) {
	if m.perCluster {
		m.errors.DeletePartialMatch(prometheus.Labels{"cluster": cluster})
		m.delayed.DeleteLabelValues(cluster)
	}
}

// sessionGauge is what the meter knows of one session.
type sessionGauge struct {
	contact atomic.Uint32
	// counted is the reason that was counted last; only the session uses it.
	counted string
}

// countFailure counts an attempt that failed.
func (s *session) countFailure(reason string) {
	s.gauge.counted = reason
	s.agent.meter.errors.WithLabelValues(reason, s.agent.meter.clusterLabel(s.name)).Inc()
}

// measureOutcome notes what a pass found out.
func (s *session) measureOutcome() {
	reason := s.outcome.connected.Reason
	if reason == fleetv1alpha1.ClusterConnectionReasonCredentialsInvalid {
		reason = s.outcome.credentials.Reason
	}
	if reason != "" && !isUnwanted(reason) && reason != s.gauge.counted {
		s.countFailure(reason)
	}
	s.gauge.counted = reason
	s.gauge.contact.Store(uint32(contactBy(reason, s.engaged)))
}

// isUnwanted reports whether a reason is no failure: the hub does not want the cluster,
// or not yet.
func isUnwanted(reason string) bool {
	return reason == fleetv1alpha1.ClusterConnectionReasonNotAccepted || reason == fleetv1alpha1.ClusterConnectionReasonManagedClusterMissing
}

// contactBy returns how far the agent is by why there is no connection, which is
// empty if nothing is known to be wrong. A cluster whose answer was too large is
// looked after all the same.
func contactBy(reason string, engaged bool) contactState {
	switch {
	case engaged && (reason == "" || reason == fleetv1alpha1.ClusterConnectionReasonAnswerTooLarge):
		return contactConnected
	case reason == "" || isUnwanted(reason):
		return contactPending
	}
	return contactFailed
}

// MetricCollectors returns the metrics of the agent, but for those of its parts.
func (a *Agent) MetricCollectors() []prometheus.Collector {
	return []prometheus.Collector{
		a.meter.errors, a.meter.delayed,
		metrics.NewComputedGauge(metrics.Definition{
			Name:   "capstan_push_connections",
			Help:   "Number of Push clusters by state, of which each has one: pending (not accepted, or nothing is known yet), connected, failed. The label cluster is empty without --metrics-per-cluster.",
			Labels: []string{"state", "cluster"},
		}, a.countConnections),
	}
}

func (a *Agent) countConnections(_ context.Context, set metrics.SetValue) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var counts [contactsEnd]int
	for _, name := range slices.Sorted(maps.Keys(a.sessions)) {
		state := contactState(a.sessions[name].session.gauge.contact.Load())
		counts[state]++
		if a.meter.perCluster {
			set(1, state.String(), name)
		}
	}
	if !a.meter.perCluster {
		for state := range contactsEnd {
			set(float64(counts[state]), state.String(), "")
		}
	}
	return nil
}
