// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import "github.com/prometheus/client_golang/prometheus"

// newVerdicts returns the counter of decisions.
func newVerdicts() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_certificate_request_decisions_total",
		Help: "Decisions about certificate requests of agents, by verdict (Approve, Refuse, Leave, Wait, Ignore) and kind (Bootstrap, Renewal).",
	}, []string{"verdict", "kind"})
}

// Collector returns the metrics of the controller.
func (c *Controller) Collector() prometheus.Collector { return c.verdicts }
