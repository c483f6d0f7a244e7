// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

const (
	// computeMax is how long finding the values of a metric may take. It is memory
	// that is read, so only a cache that has not synced yet comes near.
	computeMax = 5 * time.Second
	// samplesMax is how many values a metric has at most: what is beyond is left
	// away, so that nobody's labels cost more than the metric is worth.
	samplesMax = 5000
)

// Definition is what readers of a metric are told of it.
type Definition struct {
	Name, Help string
	Labels     []string
	// Fixed are labels that have one value here. Others may define the same metric
	// with other values of theirs.
	Fixed map[string]string
}

func (d Definition) newDesc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, d.Fixed)
}

// SetValue gives a metric one value, with the values of its labels in their order.
type SetValue func(value float64, labels ...string)

// ComputedGauge is a gauge whose values are found when it is read: it costs nothing
// otherwise. There are none before the cache that they are found in has started.
type ComputedGauge struct {
	desc    *prometheus.Desc
	compute func(context.Context, SetValue) error
}

// NewComputedGauge returns a gauge. The function has to read memory only.
func NewComputedGauge(d Definition, compute func(context.Context, SetValue) error) *ComputedGauge {
	return &ComputedGauge{desc: d.newDesc(), compute: compute}
}

// Type is that of the metric: Describe does not tell.
func (c *ComputedGauge) Type() string { return "gauge" }

// Describe implements prometheus.Collector.
func (c *ComputedGauge) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- c.desc }

// Collect implements prometheus.Collector.
func (c *ComputedGauge) Collect(metrics chan<- prometheus.Metric) {
	count := 0
	collectValues(c.desc, metrics, func(ctx context.Context) error {
		return c.compute(ctx, func(value float64, labels ...string) {
			if count++; count <= samplesMax {
				metrics <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, value, labels...)
			}
		})
	})
}

// collectValues calls the function that finds the values of a metric, and sends its
// error in their place.
func collectValues(desc *prometheus.Desc, metrics chan<- prometheus.Metric, find func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), computeMax) // Prometheus hands in none
	defer cancel()
	err := find(ctx)
	var unstarted *cache.ErrCacheNotStarted
	if err != nil && !errors.As(err, &unstarted) {
		metrics <- prometheus.NewInvalidMetric(desc, fmt.Errorf("finding the values of the metric: %w", err))
	}
}

// AgeHistogram is a histogram of how old things are when it is read.
type AgeHistogram struct {
	desc    *prometheus.Desc
	buckets []float64
	list    func(context.Context, func(seconds float64)) error
}

// NewAgeHistogram returns a histogram with the buckets, in seconds, of which each is the
// largest age in it. The function has to read memory only. The metric has no labels.
func NewAgeHistogram(d Definition, buckets []float64, list func(context.Context, func(seconds float64)) error) *AgeHistogram {
	return &AgeHistogram{desc: d.newDesc(), buckets: buckets, list: list}
}

// Type is that of the metric: Describe does not tell.
func (a *AgeHistogram) Type() string { return "histogram" }

// Describe implements prometheus.Collector.
func (a *AgeHistogram) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- a.desc }

// Collect implements prometheus.Collector.
func (a *AgeHistogram) Collect(metrics chan<- prometheus.Metric) {
	collectValues(a.desc, metrics, func(ctx context.Context) error {
		var count uint64
		var sum float64
		buckets := make(map[float64]uint64, len(a.buckets))
		for _, bucket := range a.buckets {
			buckets[bucket] = 0
		}
		err := a.list(ctx, func(age float64) {
			count++
			sum += age
			for _, bucket := range a.buckets {
				if age <= bucket {
					buckets[bucket]++
				}
			}
		})
		if err != nil {
			return err
		}
		metrics <- prometheus.MustNewConstHistogram(a.desc, count, sum, buckets)
		return nil
	})
}
