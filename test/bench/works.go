// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// The names of the figures.
const (
	thousandFigure       = "1,000 works x 1, 1 cluster, until the last status"
	tenFigure            = "10 works x 100, 1 cluster, until the last status"
	tenDeletedFigure     = "delete the 10 x 100"
	fanoutFigure         = "100 works to each of 10 clusters, until the last status"
	changeFigure         = "one change, at the member, p50"
	changeWorstFigure    = "one change, at the member, p99"
	requestWorstFigure   = "one change, the user's request itself, p99"
	changeRequestFigure  = "one change, the user's request itself, p50"
	changeStatusFigure   = "one change, status on the hub, p50"
	feedbackFigure       = "status change at the member, on the hub, p50"
	deletedFigure        = "object deleted at the member, back, p50"
	alteredFigure        = "object changed at the member, back, p50"
	writesFigure         = "hub writes per work, the create included"
	requestsFigure       = "hub requests per work, the create included"
	agentCPUFigure       = "agent CPU per work"
	memory1000Figure     = "agent memory per 1,000 objects, with 1,000"
	memory5000Figure     = "agent memory per 1,000 objects, with 5,000"
	memoryEmptyFigure    = "agent memory without objects"
	memoryForeignFigure  = "agent memory more by 50,000 foreign objects"
	fairnessFigure       = "a small work beside one of 1,000 manifests, times slower, worst"
	thousandRemoveFigure = "delete the 1,000 x 1"
	floodFigure          = "flood: all works, until the last status"
	floodRateFigure      = "flood: works per second"
	floodDepthFigure     = "flood: works that wait, most"
	floodMemoryFigure    = "flood: agent memory, most"
	floodSmallFigure     = "flood: a small work beside, slowest"
	floodSmallsFigure    = "flood: small works beside"
)

// workFigures are what measureWork measures, with the goals for 2 cores.
func workFigures() []*figure {
	return []*figure{
		{Name: thousandFigure, Unit: "s", Goal: 5, GoalRatio: 2},
		{Name: thousandRemoveFigure, Unit: "s"},
		{Name: tenFigure, Unit: "s", Goal: 2, GoalRatio: 2},
		{Name: tenDeletedFigure, Unit: "s", Goal: 2, GoalRatio: 2},
		{Name: fanoutFigure, Unit: "s", Goal: 5, GoalRatio: 2},
		{Name: changeRequestFigure, Unit: "ms"},
		{Name: requestWorstFigure, Unit: "ms"},
		{Name: changeFigure, Unit: "ms", Goal: 8, GoalRatio: 3},
		{Name: changeWorstFigure, Unit: "ms", Goal: 20},
		{Name: changeStatusFigure, Unit: "ms", Goal: 12},
		{Name: feedbackFigure, Unit: "ms", Goal: 15},
		{Name: deletedFigure, Unit: "ms", Goal: 10},
		{Name: alteredFigure, Unit: "ms", Goal: 10},
		{Name: writesFigure, Unit: "", Goal: 2.1},
		{Name: requestsFigure, Unit: ""},
		{Name: agentCPUFigure, Unit: "ms"},
		{Name: fairnessFigure, Unit: "x", Goal: 10},
		{Name: memoryEmptyFigure, Unit: "MiB"},
		{Name: memory1000Figure, Unit: "MiB", Goal: 2},
		{Name: memory5000Figure, Unit: "MiB", Goal: 2},
		{Name: memoryForeignFigure, Unit: "MiB", Goal: 1},
		{Name: floodFigure, Unit: "s"},
		{Name: floodRateFigure, Unit: "1/s"},
		{Name: floodDepthFigure, Unit: ""},
		{Name: floodMemoryFigure, Unit: "MiB"},
		{Name: floodSmallFigure, Unit: "s"},
		{Name: floodSmallsFigure, Unit: ""},
	}
}

// workBench is a fleet that gets works.
type workBench struct {
	*bench
	*report
	works      *delivery
	floodWorks int
}

// scenario measures some of the figures of a benchmark.
type scenario[Bench any] struct {
	name string
	// once says that one run is enough.
	once bool
	run  func(Bench, context.Context) error
}

// workScenarios are in an order in which none disturbs those that follow: the
// last ones leave clusters and objects behind.
func workScenarios() []scenario[*workBench] {
	return []scenario[*workBench]{
		{name: "change", run: (*workBench).change},
		{name: "drift", run: (*workBench).drift},
		{name: "feedback", run: (*workBench).feedback},
		{name: "fairness", run: (*workBench).fairness},
		{name: "ten", run: (*workBench).ten},
		{name: "thousand", run: (*workBench).thousand},
		{name: "fanout", run: (*workBench).fanout},
		{name: "memory", run: (*workBench).memory, once: true},
		{name: "flood", run: (*workBench).flood, once: true},
	}
}

// measureWork delivers, changes and deletes works.
func measureWork(ctx context.Context, o options) (fmt.Stringer, error) {
	chosen, err := choose(workScenarios(), o.scenarios)
	if err != nil {
		return nil, err
	}
	result := &report{Runs: o.runs, Figures: workFigures()}
	err = withFleet(ctx, o, false, func(ctx context.Context, f *bench) error {
		b := &workBench{bench: f, report: result, works: &delivery{fleet: f.fleet}, floodWorks: o.flood}
		if _, err := f.join(ctx, 1); err != nil {
			return err
		}
		for _, c := range []*fleet.Cluster{f.fleet.Hub, f.fleet.Members[0]} {
			if err := makeNamespaces(ctx, c); err != nil {
				return err
			}
		}
		return runAll(ctx, b, chosen, o)
	})
	return result, err
}

// choose returns the scenarios of these names, separated by commas, and all if
// there are none.
func choose[Bench any](all []scenario[Bench], names string) ([]scenario[Bench], error) {
	if names == "" {
		return all, nil
	}
	wanted := strings.Split(names, ",")
	var chosen []scenario[Bench]
	var known []string
	for _, s := range all {
		known = append(known, s.name)
		if slices.Contains(wanted, s.name) {
			chosen = append(chosen, s)
		}
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("--scenarios: there is no %q, only %s", name, strings.Join(known, ","))
		}
	}
	return chosen, nil
}

// runAll runs each scenario several times, while there is time.
func runAll[Bench any](ctx context.Context, b Bench, scenarios []scenario[Bench], o options) error {
	limit := time.Now()
	for _, s := range scenarios {
		limit = limit.Add(o.limit / time.Duration(len(scenarios)))
		runs := o.runs
		if s.once {
			runs = 1
		}
		if err := s.repeat(ctx, b, runs, limit); err != nil {
			return err
		}
	}
	return nil
}

// repeat runs the scenario, not again after the time.
func (s scenario[Bench]) repeat(ctx context.Context, b Bench, runs int, until time.Time) error {
	for run := range runs {
		if run > 0 && time.Now().After(until) {
			fmt.Fprintf(os.Stderr, "%s: %d runs left out, as --limit says\n", s.name, runs-run)
			return nil
		}
		fmt.Fprintf(os.Stderr, "%s: run %d of %d\n", s.name, run+1, runs)
		if err := s.run(b, ctx); err != nil {
			return fmt.Errorf("scenario %s: %w", s.name, err)
		}
	}
	return nil
}

// makeNamespaces makes the namespaces for objects on a member, or the hub.
func makeNamespaces(ctx context.Context, c *fleet.Cluster) error {
	for _, name := range []string{worksNamespace, probeNamespace} {
		if err := c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return err
		}
	}
	return nil
}

// thousand delivers works of one manifest to one cluster, and deletes them.
func (b *workBench) thousand(ctx context.Context) error {
	const works = 1000
	l := load{clusters: 1, works: works, manifests: 1, payload: probePayloadBytes}
	requestsBefore, err := fleet.CountRequests(ctx, b.fleet.Hub.Kubernetes)
	if err != nil {
		return err
	}
	usedBefore, err := fleet.Total(b.fleet.Agents)
	if err != nil {
		return err
	}
	made := b.works.build(l)
	took, err := b.works.deliver(ctx, made)
	if err != nil {
		return err
	}
	usedAfter, err := fleet.Total(b.fleet.Agents)
	if err != nil {
		return err
	}
	requestsAfter, err := fleet.CountRequests(ctx, b.fleet.Hub.Kubernetes)
	if err != nil {
		return err
	}
	spent := requestsAfter.Minus(requestsBefore)
	b.figure(writesFigure).add(spent.Writes/works, 0)
	b.figure(requestsFigure).add(spent.All/works, 0)
	b.figure(agentCPUFigure).add(1000*(usedAfter.CPUSeconds-usedBefore.CPUSeconds)/works, 0)
	return b.compare(ctx, l, made, took, thousandFigure, thousandRemoveFigure)
}

// ten delivers works of a hundred manifests to one cluster, and deletes them.
func (b *workBench) ten(ctx context.Context) error {
	l := load{clusters: 1, works: 10, manifests: 100, payload: probePayloadBytes}
	made := b.works.build(l)
	took, err := b.works.deliver(ctx, made)
	if err != nil {
		return err
	}
	return b.compare(ctx, l, made, took, tenFigure, tenDeletedFigure)
}

// compare runs the probe beside works that were delivered, deletes these, and
// notes how long everything took. The figure for the deletion may be empty.
func (b *workBench) compare(
	ctx context.Context, l load, made []*workv1.ManifestWork, took time.Duration, delivered, deleted string,
) error {
	written, removed, err := b.works.probe(ctx, l, made[0])
	if err != nil {
		return fmt.Errorf("writing as much without an agent: %w", err)
	}
	gone, err := b.works.remove(ctx, made)
	if err != nil {
		return err
	}
	b.figure(delivered).add(took.Seconds(), written.Seconds())
	if deleted != "" {
		b.figure(deleted).add(gone.Seconds(), removed.Seconds())
	}
	return nil
}

// fanout delivers works to ten clusters, and deletes them.
func (b *workBench) fanout(ctx context.Context) error {
	const clusters = 10
	if len(b.fleet.Members) < clusters {
		if err := b.grow(ctx, clusters); err != nil {
			return err
		}
	}
	l := load{clusters: clusters, works: 100, manifests: 1, payload: probePayloadBytes}
	made := b.works.build(l)
	took, err := b.works.deliver(ctx, made)
	if err != nil {
		return err
	}
	return b.compare(ctx, l, made, took, fanoutFigure, "")
}

// memory gives works to a fresh agent, and foreign objects to the member.
func (b *workBench) memory(ctx context.Context) error {
	b.fleet.Agents[0].Stop()
	agent, err := b.fleet.StartAgent(ctx, b.agent(0))
	if err != nil {
		return err
	}
	b.fleet.Agents = append([]*fleet.Process{agent}, b.fleet.Agents[1:len(b.fleet.Agents)-1]...)
	empty, err := b.settled(ctx)
	if err != nil {
		return err
	}
	b.figure(memoryEmptyFigure).add(empty, 0)
	have, last := 0, empty
	for _, step := range []struct {
		figure  string
		objects int
	}{{memory1000Figure, 1000}, {memory5000Figure, 5000}} {
		works := b.works.build(load{clusters: 1, works: step.objects - have, manifests: 1, payload: probePayloadBytes})
		if _, err := b.works.deliver(ctx, works); err != nil {
			return err
		}
		have = step.objects
		if last, err = b.settled(ctx); err != nil {
			return err
		}
		b.figure(step.figure).add((last-empty)/(float64(have)/1000), 0)
	}
	err = parallel(ctx, foreignObjects, func(ctx context.Context, i int) error {
		return b.fleet.Members[0].Client.Create(ctx, configMap(worksNamespace, fmt.Sprintf("foreign-%d", i), "0", 0))
	})
	if err != nil {
		return err
	}
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	b.figure(memoryForeignFigure).add(after-last, 0)
	return nil
}

// settled returns the memory of the first agent, in MiB, when it has come to rest.
func (b *workBench) settled(ctx context.Context) (float64, error) {
	if err := fleet.Pause(ctx, memorySettle); err != nil {
		return 0, err
	}
	used, err := b.fleet.Agents[0].Usage()
	return used.AnonMiB, err
}
