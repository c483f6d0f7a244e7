// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// tickingClock is a second ahead each time that somebody looks.
type tickingClock struct{ *clocktesting.FakePassiveClock }

func (c tickingClock) Now() time.Time {
	c.SetTime(c.FakePassiveClock.Now().Add(time.Second))
	return c.FakePassiveClock.Now()
}

func (c tickingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func TestMetricsHaveTheNamesThatDashboardsRead(t *testing.T) {
	clock := tickingClock{clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
	m := newSchedulingMetrics(clock)
	request, problems := scheduler.CompileRequest(scheduler.RequestSpec{
		Predicates: []scheduler.Predicate{{Expressions: []string{`managedCluster.metadata.name == "a"`}}},
		Scorers:    []scheduler.WeightedScorer{{Scorer: scheduler.AddOn{Score: view.ScoreName{Resource: "demo", Score: "heat"}}, Weight: 1}},
	})
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	observer, end := m.beginEvaluation()
	if result := scheduler.ScheduleClusters(view.NewFleet(view.FromCluster(cluster, nil)), request.WithObserver(observer), nil, clock.Now()); len(result.Targets) != 1 {
		t.Fatalf("chosen are %v", result.Targets)
	}
	end()
	m.observeDecisionWrites(decisionWrites{}, clock.Now(), clock.Now()) // which is nothing
	m.observeDecisionWrites(decisionWrites{First: []decisionSlice{{Number: 1}}}, clock.Now(), clock.Now())

	want := []string{
		"capstan_placement_decision_latency_seconds{} 1",
		"capstan_placement_evaluations_total{} 1",
		"scheduling_bind_duration_seconds{name=placement_scheduling} 1",
		"scheduling_cel_runtime_duration_seconds{name=placement_scheduling} 1",
		"scheduling_plugin_duration_seconds{name=placement_scheduling,plugin_name=AddOn,plugin_type=prioritizer} 1",
		"scheduling_plugin_duration_seconds{name=placement_scheduling,plugin_name=ClusterSets,plugin_type=filter} 1",
		"scheduling_plugin_duration_seconds{name=placement_scheduling,plugin_name=Deletion,plugin_type=filter} 1",
		"scheduling_plugin_duration_seconds{name=placement_scheduling,plugin_name=Predicate,plugin_type=filter} 1",
		"scheduling_plugin_duration_seconds{name=placement_scheduling,plugin_name=PreferNoSelect,plugin_type=prioritizer} 1",
		"scheduling_plugin_duration_seconds{name=placement_scheduling,plugin_name=TaintToleration,plugin_type=filter} 1",
		"scheduling_scheduling_duration_seconds{name=placement_scheduling} 1",
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.metricCollectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string // how much was counted, by name and labels
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			count := float64(metric.GetHistogram().GetSampleCount()) + metric.GetCounter().GetValue()
			lines = append(lines, fmt.Sprintf("%s{%s} %v", family.GetName(), strings.Join(labels, ","), count))
		}
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("the metrics (-want +got):\n%s", diff)
	}
}

func TestAPlacementWaitsSinceItsFirstEvent(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	a := newArrivals(clock)
	one := ctrl.Request{}
	one.Name = "one"
	q, ours := a.newArrivalQueue("test", nil).(arrivalQueue)
	if !ours {
		t.Fatal("the queue is another one")
	}
	defer q.ShutDown()
	later := func(seconds int64) { clock.SetTime(time.Unix(seconds, 0)) }
	begins := func(reason string, want time.Time) {
		t.Helper()
		if got := a.takeArrival(one); !got.Equal(want) {
			t.Errorf("%s: it waits since %s, want %s", reason, got, want)
		}
	}

	begins("nobody has asked", time.Time{})
	q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour}, one)
	begins("what comes back by itself is no event", time.Time{})
	q.Add(one)
	later(101)
	q.AddWithOpts(priorityqueue.AddOpts{}, one)
	begins("the first event counts", time.Unix(100, 0))
	q.Add(one)
	begins("what has failed waits since before", time.Unix(100, 0))
	a.finishArrival(one)
	q.Add(one)
	begins("a new event", time.Unix(101, 0))
	a.finishArrival(one)
	if len(a.waiting)+len(a.running) > 0 {
		t.Errorf("waiting are %v and running %v in the end", a.waiting, a.running)
	}
}

// TestPlacementsOfANamespaceHaveNotAllWorkers has Placements of one namespace waiting, each of
// which takes long, and then one of another.
func TestPlacementsOfANamespaceHaveNotAllWorkers(t *testing.T) {
	q := newArrivals(clocktesting.NewFakePassiveClock(time.Unix(100, 0))).newArrivalQueue("test", nil)
	defer q.ShutDown()
	for n := range 100 {
		q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: strconv.Itoa(n)}})
	}
	q.Add(ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "bank", Name: "0"}})
	for range workers {
		if placement, _ := q.Get(); placement.Namespace == "bank" {
			return
		}
	}
	t.Errorf("%d workers look at Placements of one namespace", workers)
}
