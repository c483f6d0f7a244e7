// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestAComputedMetricIsFoundWhenItIsRead(t *testing.T) {
	cases := map[string]struct {
		compute func(context.Context, SetValue) error
		want    int
		fails   bool
	}{
		"each value that is set": {want: 2, compute: func(_ context.Context, set SetValue) error {
			set(1, "one")
			set(2, "two")
			return nil
		}},
		"no more than the limit": {want: samplesMax, compute: func(_ context.Context, set SetValue) error {
			for i := range samplesMax + 1 {
				set(1, string(rune('\u4e00'+i)))
			}
			return nil
		}},
		"none before the cache has started": {compute: func(context.Context, SetValue) error {
			return &cache.ErrCacheNotStarted{}
		}},
		"an error is told": {fails: true, compute: func(context.Context, SetValue) error { return errors.New("broken") }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			expect.NoError(t, RegisterCollectors(registry, NewComputedGauge(Definition{Name: "things", Help: "Things.", Labels: []string{"name"}}, tc.compute)))
			families, err := registry.Gather()
			if (err != nil) != tc.fails {
				t.Fatalf("got error %v, want one: %t", err, tc.fails)
			}
			got := 0
			for _, family := range families {
				got += len(family.GetMetric())
			}
			if got != tc.want {
				t.Errorf("got %d values, want %d", got, tc.want)
			}
		})
	}
}

func TestAgesAreCountedByBucket(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	ages := NewAgeHistogram(Definition{Name: "age_seconds", Help: "Ages."}, []float64{30, 60}, func(_ context.Context, age func(float64)) error {
		age(30)
		age(31)
		age(500)
		return nil
	})
	expect.NoError(t, RegisterCollectors(registry, ages))
	families, err := registry.Gather()
	expect.NoError(t, err)
	histogram := families[0].GetMetric()[0].GetHistogram()
	if histogram.GetSampleCount() != 3 || histogram.GetSampleSum() != 561 {
		t.Errorf("got %d ages with the sum %v, want 3 with 561", histogram.GetSampleCount(), histogram.GetSampleSum())
	}
	want := map[float64]uint64{30: 1, 60: 2}
	for _, bucket := range histogram.GetBucket() {
		if bucket.GetCumulativeCount() != want[bucket.GetUpperBound()] {
			t.Errorf("bucket %v has %d, want %d", bucket.GetUpperBound(), bucket.GetCumulativeCount(), want[bucket.GetUpperBound()])
		}
	}
}
