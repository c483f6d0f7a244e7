// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// floodSample is how often it is looked how many works wait.
const floodSample = 5 * time.Second

// backlog counts works that were created, and those with a status.
type backlog struct {
	mu                sync.Mutex
	created, reported int
}

func (l *backlog) add(created, reported int) (waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.created += created
	l.reported += reported
	return l.created - l.reported
}

// flood delivers far more works than can be applied at once to one cluster,
// small ones beside them, and looks all the while how many wait. It deletes
// nothing.
func (b *workBench) flood(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	made := b.works.build(load{clusters: 1, works: b.floodWorks, manifests: 1, payload: probePayloadBytes})
	seen, err := open[*workv1.ManifestWork](ctx, b.fleet.Hub.Client, &workv1.ManifestWorkList{}, client.MatchingLabels(made[0].Labels))
	if err != nil {
		return err
	}
	defer seen.close()
	var all backlog
	ended := make(chan error, 2)
	started := time.Now()
	go func() {
		ended <- parallel(ctx, len(made), func(ctx context.Context, i int) error {
			defer all.add(1, 0)
			return b.fleet.Hub.Client.Create(ctx, made[i])
		})
	}()
	go func() { ended <- all.untilReported(ctx, seen, len(made)) }()
	var small []float64
	beside, stop := context.WithCancel(ctx)
	besides := make(chan error, 1)
	go func() {
		for {
			began := time.Now()
			took, err := b.works.small(beside)
			if beside.Err() != nil {
				took = milliseconds(time.Since(began)) // it waits to the end
			}
			small = append(small, took)
			if err != nil {
				besides <- err
				return
			}
		}
	}()
	most, memory, err := b.watchFlood(ended, started, &all)
	took := time.Since(started)
	smallFailed := beside.Err() == nil && len(besides) > 0
	stop()
	if last := <-besides; err == nil && smallFailed {
		err = fmt.Errorf("a small work beside the others: %w", last)
	}
	if err != nil || len(small) == 0 {
		return fmt.Errorf("delivering %d works, with %d small ones beside: %w", len(made), len(small), err)
	}
	b.figure(floodFigure).add(took.Seconds(), 0)
	b.figure(floodRateFigure).add(float64(len(made))/took.Seconds(), 0)
	b.figure(floodDepthFigure).add(float64(most), 0)
	b.figure(floodMemoryFigure).add(memory, 0)
	b.figure(floodSmallFigure).add(slices.Max(small)/1000, 0)
	b.figure(floodSmallsFigure).add(float64(len(small)), 0)
	return nil
}

// untilReported counts the works that have their first status.
func (l *backlog) untilReported(ctx context.Context, seen *stream[*workv1.ManifestWork], works int) error {
	done := make(map[string]bool, works)
	for len(done) < works {
		_, err := seen.await(ctx, func(_ watch.EventType, work *workv1.ManifestWork) bool {
			if !reported(work) || done[work.Name] {
				return false
			}
			done[work.Name] = true
			l.add(0, 1)
			return true
		})
		if err != nil {
			return fmt.Errorf("after %d of %d works: %w", len(done), works, err)
		}
	}
	return nil
}

// watchFlood returns when both that create and that count have ended: how many
// works waited at the most, and the largest memory of the agent, in MiB.
func (b *workBench) watchFlood(ended <-chan error, started time.Time, all *backlog) (most int, memory float64, err error) {
	ticker := time.NewTicker(floodSample)
	defer ticker.Stop()
	var used fleet.Usage
	for running := 2; running > 0; {
		select {
		case err := <-ended:
			if err != nil {
				return 0, 0, err
			}
			running--
		case <-ticker.C:
			if used, err = b.fleet.Agents[0].Usage(); err != nil {
				return 0, 0, err
			}
			waiting := all.add(0, 0)
			most, memory = max(most, waiting), max(memory, used.AnonMiB)
			fmt.Fprintf(os.Stderr, "%4.0f s: %5d works wait, %.1f MiB\n", time.Since(started).Seconds(), waiting, used.AnonMiB)
		}
	}
	return most, memory, nil
}

const (
	// foreignObjects are how many objects of the same kind that are not ours are
	// put into the member.
	foreignObjects = 50000
	// memorySettle is how long an agent is left alone before its memory counts.
	memorySettle = 25 * time.Second
)

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
