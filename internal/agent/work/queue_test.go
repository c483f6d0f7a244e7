// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"

	"github.com/capstan-io/capstan/internal/agent/work/runtime"
)

func TestTheDepthOfTheQueueIsAMetric(t *testing.T) {
	part, err := New(Options{Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	isDepth := func(want float64) {
		t.Helper()
		if got := depth(t, part.Collector()); got != want {
			t.Errorf("the depth of the queue: got %v, want %v", got, want)
		}
	}
	isDepth(0)
	queue := part.newQueue("work", workqueue.NewTypedItemExponentialFailureRateLimiter[Request](runtime.RetryMin, runtime.RetryMax))
	t.Cleanup(queue.ShutDown)
	queue.Add(Request{Cluster: "c", Work: "one"})
	queue.Add(Request{Cluster: "c", Work: "two"})
	isDepth(2)
	queue.Get()
	isDepth(1)
}

// depth returns the only value of the collector.
func depth(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || families[0].GetName() != "capstan_work_queue_depth" {
		t.Fatalf("the metrics are %v, want capstan_work_queue_depth", families)
	}
	return families[0].GetMetric()[0].GetGauge().GetValue()
}
