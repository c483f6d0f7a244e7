// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	fleetSize      = 1000
	largeFleetSize = 10000
	placementCount = 1000
	// pick is how many clusters each of many placements wants.
	pick = 10
	// goldClusters have a label that goldPlacements of all select by.
	goldClusters, goldPlacements = pick, 10
	// heartbeats are changes of one cluster that no placement asks about.
	heartbeats = 100
	// calm is how long the controller is left alone before its work is counted.
	calm = 2 * time.Second
)

// The names of the figures.
const (
	engineFigure           = "engine alone, %s clusters"
	engineAllocsFigure     = "engine alone, %s clusters, allocations per cluster"
	oneFigure              = "1 placement, 1,000 clusters, until all decisions"
	placementsFigure       = "1,000 placements x 1,000 clusters, each picks 10, from the start of the controller until the last status"
	placementsCPUFigure    = "the 1,000 x 1,000, CPU of the controller"
	placementsWritesFigure = "the 1,000 x 1,000, hub writes"
	placementsEvalFigure   = "the 1,000 x 1,000, evaluations"
	replicasFigure         = "1 placement -> 1,000 works by a replica set"
	replicasChangedFigure  = "the template of the 1,000 works is changed"
	replicasDeletedFigure  = "the replica set of the 1,000 works is deleted, until the last is being deleted"
	flipFigure             = "a label of 1 cluster, 10 of 1,000 placements affected, until the last status"
	flipEvalFigure         = "the label of 1 cluster, evaluations"
	largeStartFigure       = "10,000 clusters, 1,000 placements: from the start of the controller until all are evaluated"
	largeCPUFigure         = "the start with 10,000 x 1,000, CPU of the controller"
	largeMemoryFigure      = "10,000 clusters, 1,000 placements: anonymous memory of the controller"
	heartbeatEvalFigure    = "10,000 clusters: evaluations by 100 heartbeats (none is wanted)"
	heartbeatCPUFigure     = "10,000 clusters: CPU of the controller for a heartbeat"
	clusterJoinsCPUFigure  = "10,000 clusters: CPU of the controller for one more, which all 1,000 placements may choose"
)

// placementFigures are what measurePlacement measures, with the goals for 2 cores.
func placementFigures() []*figure {
	return []*figure{
		{Name: fmt.Sprintf(engineFigure, "100"), Unit: "ms"},
		{Name: fmt.Sprintf(engineFigure, "1000"), Unit: "ms"},
		{Name: fmt.Sprintf(engineFigure, "10000"), Unit: "ms", Goal: 5},
		{Name: fmt.Sprintf(engineAllocsFigure, "100"), Unit: ""},
		{Name: fmt.Sprintf(engineAllocsFigure, "1000"), Unit: ""},
		{Name: fmt.Sprintf(engineAllocsFigure, "10000"), Unit: ""},
		{Name: oneFigure, Unit: "ms", Goal: 50},
		{Name: replicasFigure, Unit: "s", GoalRatio: 2},
		{Name: replicasChangedFigure, Unit: "s", GoalRatio: 2},
		{Name: replicasDeletedFigure, Unit: "s", GoalRatio: 2},
		{Name: placementsFigure, Unit: "s", GoalRatio: 2},
		{Name: placementsCPUFigure, Unit: "s"},
		{Name: placementsWritesFigure, Unit: "", Goal: 3 * placementCount},
		{Name: placementsEvalFigure, Unit: "", Goal: placementCount},
		{Name: flipFigure, Unit: "ms"},
		{Name: flipEvalFigure, Unit: "", Goal: goldPlacements},
		{Name: largeStartFigure, Unit: "s"},
		{Name: largeCPUFigure, Unit: "s"},
		{Name: largeMemoryFigure, Unit: "MiB"},
		{Name: heartbeatEvalFigure, Unit: ""},
		{Name: heartbeatCPUFigure, Unit: "ms"},
		{Name: clusterJoinsCPUFigure, Unit: "s"},
	}
}

// placementBench is a hub whose placements choose clusters.
type placementBench struct {
	*bench
	*report
	hub        *placementHub
	controller *fleet.Process
	works      *fleet.Process // that has the replica sets
	// profiles is where lists of requests go.
	profiles string
}

// placementScenarios are in an order in which none disturbs those that follow:
// the last one makes the fleet larger.
func placementScenarios() []scenario[*placementBench] {
	return []scenario[*placementBench]{
		{name: "engine", run: (*placementBench).engine, once: true},
		{name: "one", run: (*placementBench).one},
		{name: "replicas", run: (*placementBench).replicas},
		{name: "thousand", run: (*placementBench).thousand},
		{name: "flip", run: (*placementBench).flip},
		{name: "large", run: (*placementBench).large, once: true},
	}
}

// measurePlacement lets placements choose clusters. The clusters have no agents,
// so the controller that would find them out is stopped.
func measurePlacement(ctx context.Context, o options) (fmt.Stringer, error) {
	chosen, err := choose(placementScenarios(), o.scenarios)
	if err != nil {
		return nil, err
	}
	o.replicaSets = true
	result := &report{Runs: o.runs, Figures: placementFigures()}
	err = withFleet(ctx, o, false, func(ctx context.Context, f *bench) error {
		f.fleet.HubProcesses[0].Stop()
		f.fleet.HubProcesses = f.fleet.HubProcesses[1:]
		b := &placementBench{bench: f, report: result, profiles: o.profiles}
		if b.hub, err = newPlacementHub(ctx, f.fleet); err != nil {
			return err
		}
		if err := b.hub.grow(ctx, fleetSize); err != nil {
			return err
		}
		if err := b.start(ctx); err != nil {
			return err
		}
		return runAll(ctx, b, chosen, o)
	})
	return result, err
}

// start starts the controller and waits until it answers.
func (b *placementBench) start(ctx context.Context) (err error) {
	if b.controller, err = b.hub.startController(ctx); err != nil {
		return err
	}
	return fleet.Poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := b.hub.evaluations(ctx)
		return err == nil, nil
	})
}

// benchmarkLine is what go test prints of a benchmark.
var benchmarkLine = regexp.MustCompile(`(?m)^BenchmarkSchedule/(\d+)_clusters\S*\s+\d+\s+(\S+) ns/op\s+\S+ B/op\s+(\d+) allocs/op$`)

// engine runs the Go benchmark of the scheduler.
func (b *placementBench) engine(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=^BenchmarkSchedule$", fmt.Sprintf("-count=%d", b.Runs), "./internal/scheduling/scheduler")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("running the benchmark of the scheduler: %w:\n%s", err, out)
	}
	for _, line := range benchmarkLine.FindAllSubmatch(out, -1) {
		nanoseconds, err := strconv.ParseFloat(string(line[2]), 64)
		if err != nil {
			return fmt.Errorf("reading %q: %w", line[0], err)
		}
		size, sizeErr := strconv.ParseFloat(string(line[1]), 64)
		allocs, allocsErr := strconv.ParseFloat(string(line[3]), 64)
		if sizeErr != nil || allocsErr != nil {
			return fmt.Errorf("reading %q: no numbers", line[0])
		}
		b.figure(fmt.Sprintf(engineFigure, line[1])).add(nanoseconds/1e6, 0)
		b.figure(fmt.Sprintf(engineAllocsFigure, line[1])).add(allocs/size, 0)
	}
	return nil
}

// one has a placement choose the whole fleet, from the answer to its creation
// until all decisions are seen.
func (b *placementBench) one(ctx context.Context) error {
	plain, err := b.hub.preparePlain(ctx, 1, fleetSize)
	if err != nil {
		return err
	}
	probe, err := b.hub.writePlain(ctx, plain)
	if err != nil {
		return err
	}
	if err := b.hub.clear(ctx, probeNamespace); err != nil {
		return err
	}
	took, err := b.hub.decideAll(ctx)
	if err != nil {
		return err
	}
	b.figure(oneFigure).add(milliseconds(took), milliseconds(probe))
	return b.hub.clear(ctx, worksNamespace)
}

// thousand has many placements choose some clusters each, from the start of the
// controller until each says so. The probe is the same writes by plain clients.
func (b *placementBench) thousand(ctx context.Context) error {
	b.controller.Stop()
	plain, err := b.hub.preparePlain(ctx, placementCount, pick)
	if err != nil {
		return err
	}
	probe, err := b.hub.writePlain(ctx, plain)
	if err != nil {
		return err
	}
	for _, namespace := range []string{probeNamespace, worksNamespace} {
		if err := b.hub.clear(ctx, namespace); err != nil {
			return err
		}
	}
	if err := b.hub.place(ctx); err != nil {
		return err
	}
	before, err := fleet.CountRequests(ctx, b.fleet.Hub.Kubernetes)
	if err != nil {
		return err
	}
	seen, err := b.hub.awaitPicks(ctx, placementCount, func(int32) bool { return true })
	if err != nil {
		return err
	}
	defer seen.close()
	started := time.Now()
	if b.controller, err = b.hub.startController(ctx); err != nil {
		return err
	}
	last := <-seen.all
	if last.err != nil {
		return fmt.Errorf("waiting for the placements: %w", last.err)
	}
	b.figure(placementsFigure).add(last.at.Sub(started).Seconds(), probe.Seconds())
	if err := fleet.Pause(ctx, calm); err != nil {
		return err
	}
	after, err := fleet.CountRequests(ctx, b.fleet.Hub.Kubernetes)
	if err != nil {
		return err
	}
	evaluations, err := b.hub.evaluations(ctx)
	if err != nil {
		return err
	}
	used, err := b.controller.Usage()
	asked := after.Minus(before)
	b.figure(placementsWritesFigure).add(asked.Writes, 0)
	b.figure(placementsEvalFigure).add(evaluations, 0)
	b.figure(placementsCPUFigure).add(used.CPUSeconds, 0)
	return errors.Join(err, writeKinds(asked, placementCount, b.profiles, "placements"))
}

// flip takes the label from a cluster that some placements select by, and gives
// it back, which is not measured.
func (b *placementBench) flip(ctx context.Context) error {
	if err := b.havePlacements(ctx); err != nil {
		return err
	}
	plain, err := b.hub.preparePlain(ctx, goldPlacements, pick)
	if err != nil {
		return err
	}
	if _, err := b.hub.writePlain(ctx, plain); err != nil {
		return err
	}
	probe, err := b.hub.writePlain(ctx, plain) // again, as decisions that are there are changed
	if err != nil {
		return err
	}
	if err := b.hub.clear(ctx, probeNamespace); err != nil {
		return err
	}
	var took time.Duration
	evaluations, err := b.evaluatedBy(ctx, func() (err error) {
		took, err = b.hub.setGold(ctx, false, pick-1)
		return err
	})
	if err != nil {
		return err
	}
	b.figure(flipFigure).add(milliseconds(took), milliseconds(probe))
	b.figure(flipEvalFigure).add(evaluations, 0)
	_, err = b.hub.setGold(ctx, true, pick)
	return err
}

// havePlacements lets the many placements choose, unless they have before.
func (b *placementBench) havePlacements(ctx context.Context) error {
	if b.hub.placed {
		return nil
	}
	seen, err := b.hub.awaitPicks(ctx, placementCount, func(int32) bool { return true })
	if err != nil {
		return err
	}
	defer seen.close()
	if err := b.hub.place(ctx); err != nil {
		return err
	}
	return (<-seen.all).err
}

// evaluatedBy returns how many placements are evaluated because of something.
func (b *placementBench) evaluatedBy(ctx context.Context, do func() error) (float64, error) {
	if err := fleet.Pause(ctx, calm); err != nil {
		return 0, err
	}
	before, err := b.hub.evaluations(ctx)
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, err
	}
	if err := fleet.Pause(ctx, calm); err != nil {
		return 0, err
	}
	after, err := b.hub.evaluations(ctx)
	return after - before, err
}

// large makes the fleet large, starts the controller anew and looks what it
// uses: then, at rest, when a cluster says that it is alive, and when one joins.
func (b *placementBench) large(ctx context.Context) error {
	if err := b.havePlacements(ctx); err != nil {
		return err
	}
	b.controller.Stop()
	if err := b.hub.grow(ctx, largeFleetSize); err != nil {
		return err
	}
	started := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	err := fleet.Poll(ctx, func(ctx context.Context) (bool, error) {
		evaluated, err := b.hub.evaluations(ctx)
		return evaluated >= placementCount, err
	})
	if err != nil {
		return err
	}
	b.figure(largeStartFigure).add(time.Since(started).Seconds(), 0)
	used, err := b.controller.Usage()
	if err != nil {
		return err
	}
	b.figure(largeCPUFigure).add(used.CPUSeconds, 0)
	if err := fleet.Pause(ctx, memorySettle); err != nil {
		return err
	}
	if used, err = b.controller.Usage(); err != nil {
		return err
	}
	b.figure(largeMemoryFigure).add(used.AnonMiB, 0)
	evaluations, err := b.evaluatedBy(ctx, func() error { return b.hub.beat(ctx, heartbeats) })
	if err != nil {
		return err
	}
	b.figure(heartbeatEvalFigure).add(evaluations, 0)
	beaten, err := b.controller.Usage()
	if err != nil {
		return err
	}
	b.figure(heartbeatCPUFigure).add(1000*(beaten.CPUSeconds-used.CPUSeconds)/heartbeats, 0)
	if err := b.hub.grow(ctx, largeFleetSize+1); err != nil {
		return err
	}
	if err := fleet.Pause(ctx, memorySettle); err != nil {
		return err
	}
	joined, err := b.controller.Usage()
	b.figure(clusterJoinsCPUFigure).add(joined.CPUSeconds-beaten.CPUSeconds, 0)
	return err
}
