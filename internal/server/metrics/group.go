// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// CollectorGroup is metrics that come and go together, such as those of what a process does while
// it leads: when it leads again, they are others of the same names. It is not safe for
// concurrent use.
type CollectorGroup struct {
	registry   prometheus.Registerer
	collectors []prometheus.Collector
}

// NewCollectorGroup returns a group of metrics of the registry. A nil registry takes none.
func NewCollectorGroup(registry prometheus.Registerer) *CollectorGroup {
	return &CollectorGroup{registry: registry}
}

// RegisterAll adds metrics to the registry and to the group.
func (g *CollectorGroup) RegisterAll(collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		if err := RegisterCollectors(g.registry, c); err != nil {
			return err
		}
		g.collectors = append(g.collectors, c)
	}
	return nil
}

// UnregisterAll takes the metrics of the group out of the registry.
func (g *CollectorGroup) UnregisterAll() {
	for _, c := range g.collectors {
		if g.registry != nil {
			g.registry.Unregister(c)
		}
	}
	g.collectors = nil
}
