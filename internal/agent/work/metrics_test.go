// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

func TestTheDepthOfTheQueueIsAMetric(t *testing.T) {
	part, err := New(Options{Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	err = part.controller.Watch(source.TypedFunc[Request](
		func(_ context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
			queue.Add(Request{Cluster: "nobody", Work: "any"})
			return nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- part.Start(ctx) }()
	for deadline := time.Now().Add(patience); !hasQueue(t, "workqueue_depth"); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("there is no metric workqueue_depth with the name work")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// hasQueue tells whether the metric is there for the queue of works.
func hasQueue(t *testing.T, metric string) bool {
	t.Helper()
	families, err := controllermetrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if family.GetName() == metric && label.GetName() == "name" && label.GetValue() == "work" {
					return true
				}
			}
		}
	}
	return false
}
