// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestAGroupCanBeRegisteredAgain(t *testing.T) {
	registry := prometheus.NewRegistry()
	for turn := range 3 {
		group := NewCollectorGroup(registry)
		computed := NewComputedGauge(Definition{Name: "leads", Help: "x", Labels: []string{"a"}}, func(_ context.Context, set SetValue) error {
			set(float64(turn), "b")
			return nil
		})
		if err := group.RegisterAll(prometheus.NewCounter(prometheus.CounterOpts{Name: "turns", Help: "x"}), computed); err != nil {
			t.Fatalf("turn %d: %v", turn, err)
		}
		if err := NewCollectorGroup(registry).RegisterAll(computed); err == nil {
			t.Error("what is there twice is not said to be")
		}
		families, err := registry.Gather()
		if err != nil || len(families) != 2 || families[0].GetMetric()[0].GetGauge().GetValue() != float64(turn) {
			t.Errorf("turn %d: got %v, %v", turn, families, err)
		}
		group.UnregisterAll()
	}
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("got %v, %v, want no metrics", families, err)
	}
	none := NewCollectorGroup(nil)
	if err := none.RegisterAll(prometheus.NewCounter(prometheus.CounterOpts{Name: "turns", Help: "x"})); err != nil {
		t.Error(err)
	}
	none.UnregisterAll()
}
