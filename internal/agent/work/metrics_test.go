// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/runtime"
)

func TestTheDepthOfTheQueueIsAMetric(t *testing.T) {
	part, err := NewManifestWorkPart(PartOptions{Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	isDepth := func(want float64) {
		t.Helper()
		if got := gather(t, part)["capstan_work_queue_depth"]; got != want {
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

func TestDeliveriesAreMeasured(t *testing.T) {
	const name = "measured"
	s := newLab(t).scene(t, name)
	a := s.start(agentOptions{})
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":%q,"name":"settings"},"data":{"key":"value"}}`, s.ns())
	becomes := func(what string, values map[string]float64) {
		t.Helper()
		s.eventually(what, func() error {
			got := gather(t, a.part)
			for name, want := range values {
				if got[name] != want {
					return fmt.Errorf("%s is %v, want %v", name, got[name], want)
				}
			}
			return nil
		})
	}
	s.create(s.work("whole", text))
	s.create(s.work("broken", `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"nowhere-at-all","name":"p"}}`))
	becomes("what could be applied is measured", map[string]float64{
		`capstan_works{state="available"}`: 1, `capstan_works{state="failed"}`: 1, `capstan_works{state="pending"}`: 0,
		"capstan_work_apply_latency_seconds": 1, "capstan_work_drift_corrections_total": 0,
	})
	if reported := gather(t, a.part)["capstan_work_status_latency_seconds"]; reported < 2 {
		t.Errorf("%v reports were measured, want one of each work at least", reported)
	}

	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "settings"}}
	if err := s.client.Patch(t.Context(), settings, client.RawPatch("application/merge-patch+json", []byte(`{"data":{"key":"other"}}`))); err != nil {
		t.Fatal(err)
	}
	becomes("drift is counted", map[string]float64{"capstan_work_drift_corrections_total": 1, "capstan_work_apply_latency_seconds": 1})

	s.change("whole", func(work *workv1.ManifestWork) {
		work.Annotations = map[string]string{workv1.AnnotationSuspendDispatching: "true"}
	})
	becomes("a work that waits", map[string]float64{`capstan_works{state="suspended"}`: 1, `capstan_works{state="available"}`: 0})
	s.delete("whole")
	becomes("a work that is gone", map[string]float64{`capstan_works{state="suspended"}`: 0, `capstan_works{state="deleting"}`: 0})

	a.stop()
	again := s.start(agentOptions{})
	s.create(s.work("second", text))
	a = again
	becomes("the delivery of a new agent, and not what is as it was", map[string]float64{
		`capstan_works{state="available"}`: 1, `capstan_works{state="failed"}`: 1, "capstan_work_apply_latency_seconds": 1,
	})
}

func TestLatenciesBeginWithTheEarliestChange(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	at := func(second int64) time.Time {
		clk.SetTime(time.Unix(second, 0))
		return clk.Now()
	}
	m, waiting := newDeliveryMetrics(clk), &latencyTimes{}
	waiting.spec.markStart(at(1000))
	waiting.spec.markStart(at(1003)) // changed again before anything was applied

	pass := waiting.beginPass()
	pass.applied = at(1004)
	m.observeLatencies(waiting, &pass, statusChange{before: statePending, after: stateFailed, written: true})
	pass.applied = at(1010)
	at(1012)
	m.observeLatencies(waiting, &pass, statusChange{before: stateFailed, after: stateAvailable, written: true})
	expectSum(t, m.applied, 10)
	expectSum(t, m.reported, 2)

	waiting.member.markStart(at(1020))
	failed := waiting.beginPass() // a pass that cannot tell
	waiting.giveBack(failed)
	pass = waiting.beginPass()
	pass.applied = at(1021)
	at(1025)
	m.observeLatencies(waiting, &pass, statusChange{before: stateAvailable, after: stateAvailable, written: true})
	waiting.giveBack(pass)
	expectSum(t, m.applied, 10)
	expectSum(t, m.reported, 7)
	if again := waiting.beginPass(); !again.member.IsZero() {
		t.Errorf("what was told waits since %s", again.member)
	}
}

// expectSum compares the sum of what a histogram observed.
func expectSum(t *testing.T, histogram prometheus.Histogram, want float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(histogram)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if got := families[0].GetMetric()[0].GetHistogram().GetSampleSum(); got != want {
		t.Errorf("%s: got the sum %v, want %v", families[0].GetName(), got, want)
	}
}

// gather returns the values of the part's metrics by name, and state if there is
// one; of histograms the number of what was observed.
func gather(t testing.TB, part *ManifestWorkPart) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	for _, collector := range part.MetricCollectors() {
		if err := registry.Register(collector); err != nil {
			t.Fatal(err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := family.GetName()
			for _, label := range metric.GetLabel() {
				name += fmt.Sprintf("{%s=%q}", label.GetName(), label.GetValue())
			}
			values[name] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	return values
}
