// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capstan-io/capstan/internal/registration/policy"
)

// newVerdicts returns the counter of decisions.
func newVerdicts() *prometheus.CounterVec {
	verdicts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_certificate_request_decisions_total",
		Help: "Decisions about certificate requests of agents, by verdict (Approve, Refuse, Leave, Wait, Ignore) and kind (Bootstrap, Renewal).",
	}, []string{"verdict", "kind"})
	// All are there from the start: nobody sees an increase to 1 from nothing.
	for _, verdict := range policy.Verdicts() {
		for _, kind := range policy.Kinds() {
			verdicts.WithLabelValues(string(verdict), string(kind))
		}
	}
	return verdicts
}

// Collector returns the metrics of the controller.
func (c *Controller) Collector() prometheus.Collector { return c.verdicts }
