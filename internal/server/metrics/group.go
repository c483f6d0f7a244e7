// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/prometheus/client_golang/prometheus"

// Group is metrics that come and go together, such as those of what a process does while
// it leads: when it leads again, they are others of the same names. It is not safe for
// concurrent use.
type Group struct {
	registry   prometheus.Registerer
	collectors []prometheus.Collector
}

// NewGroup returns a group of metrics of the registry. A nil registry takes none.
func NewGroup(registry prometheus.Registerer) *Group { return &Group{registry: registry} }

// Register adds metrics to the registry and to the group.
func (g *Group) Register(collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		if err := Register(g.registry, c); err != nil {
			return err
		}
		g.collectors = append(g.collectors, c)
	}
	return nil
}

// Unregister takes the metrics of the group out of the registry.
func (g *Group) Unregister() {
	for _, c := range g.collectors {
		if g.registry != nil {
			g.registry.Unregister(c)
		}
	}
	g.collectors = nil
}
