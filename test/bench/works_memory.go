// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

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
