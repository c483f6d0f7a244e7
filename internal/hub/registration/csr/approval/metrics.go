// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capstan-io/capstan/internal/registration/policy"
)

// newVerdictCounter returns the counter of decisions.
func newVerdictCounter() *prometheus.CounterVec {
	verdicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_certificate_request_decisions_total",
		Help: "Decisions about certificate requests of agents, by verdict (Approve, Refuse, Leave, Wait, Ignore) and kind (Bootstrap, Renewal).",
	}, []string{"verdict", "kind"})
	// All are there from the start: nobody sees an increase to 1 from nothing.
	for _, verdict := range policy.AllVerdicts() {
		for _, kind := range policy.AllKinds() {
			verdicts.WithLabelValues(string(verdict), string(kind))
		}
	}
	return verdicts
}

// MetricCollector returns the metrics of the controller.
func (c *CSRApprovalController) MetricCollector() prometheus.Collector { return c.verdicts }
