// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestConnectionsAreMeasured(t *testing.T) {
	unreachable := dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonUnreachable}
	for name, tc := range map[string]struct {
		perCluster bool
		want       map[string]float64
	}{
		"without the names of clusters": {want: map[string]float64{
			"capstan_push_connections{pending}": 1, "capstan_push_connections{connected}": 2, "capstan_push_connections{failed}": 2,
			"capstan_push_connection_errors_total{Unreachable}": 4, "capstan_push_connection_errors_total{SecretMissing}": 1,
			"capstan_push_responses_delayed_total{}": 2,
		}},
		"with the names of clusters": {perCluster: true, want: map[string]float64{
			"capstan_push_connections{pending,new}": 1, "capstan_push_connections{connected,well}": 1, "capstan_push_connections{connected,shaky}": 1,
			"capstan_push_connections{failed,lost}": 1, "capstan_push_connections{failed,poor}": 1,
			"capstan_push_connection_errors_total{Unreachable,shaky}":  1,
			"capstan_push_connection_errors_total{Unreachable,lost}":   3,
			"capstan_push_connection_errors_total{SecretMissing,poor}": 1,
			"capstan_push_responses_delayed_total{,well}":              1,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &Agent{meter: newConnectionMetrics(tc.perCluster), sessions: map[string]*runningSession{}}
			begin := func(name string) *session {
				s := &session{agent: a, name: name}
				a.sessions[name] = &runningSession{session: s, ended: make(chan struct{})}
				return s
			}
			begin("new")
			well := begin("well")
			well.engaged = true
			well.measureOutcome()
			a.meter.delayed.WithLabelValues(a.meter.clusterLabel("well")).Inc()

			shaky := begin("shaky") // one probe alone is no reason to give a cluster up
			shaky.engaged = true
			shaky.countFailure(unreachable.Reason)
			shaky.measureOutcome()

			lost := begin("lost")
			lost.engaged, lost.outcome.connected = true, unreachable
			for range 3 {
				lost.countFailure(unreachable.Reason)
				lost.measureOutcome()
			}

			poor := begin("poor") // nothing is tried again and again without a Secret
			poor.suspendRequests(dial.ConnectionProblem{Reason: fleetv1alpha1.ClusterConnectionReasonSecretMissing})
			poor.measureOutcome()
			poor.measureOutcome()

			gone := begin("gone")
			a.meter.delayed.WithLabelValues(a.meter.clusterLabel("gone")).Inc()
			if tc.perCluster {
				gone.countFailure(unreachable.Reason)
			}
			r := a.sessions["gone"]
			delete(a.sessions, "gone")
			a.sessionEnded(r)

			registry := prometheus.NewPedanticRegistry()
			for _, collector := range a.MetricCollectors() {
				expect.NoError(t, registry.Register(collector))
			}
			families, err := registry.Gather()
			expect.NoError(t, err)
			values := map[string]float64{} // by name and labels
			for _, family := range families {
				for _, metric := range family.GetMetric() {
					labels := map[string]string{}
					for _, label := range metric.GetLabel() {
						labels[label.GetName()] = label.GetValue()
					}
					name := family.GetName() + "{" + labels["state"] + labels["reason"]
					if labels["cluster"] != "" {
						name += "," + labels["cluster"]
					}
					want := 2
					if family.GetName() == "capstan_push_responses_delayed_total" {
						want = 1
					}
					if len(labels) != want {
						t.Errorf("%s has the labels %v", family.GetName(), labels)
					}
					values[name+"}"] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
				}
			}
			if diff := cmp.Diff(tc.want, values); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}
