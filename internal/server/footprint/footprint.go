// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package footprint keeps the memory of a process small that waits most of the
// time: it gives back what only the start or a burst of work needed.
package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// slimEvery is how often it is looked whether there is memory to give back.
	slimEvery = 10 * time.Second
	// quietBytesMin is how much a process that has nothing to do allocates in that
	// time: it, or quietPart of what it holds.
	quietBytesMin = 512 << 10
	quietPart     = 32
	// wasteBytesMin is from how much memory on it is worth the work: collecting a
	// heap of 20 MiB takes about 10 ms.
	wasteBytesMin = 2 << 20
	// growthBytesMin is how much more than after the last collection it has to be.
	growthBytesMin = 1 << 20
)

// startupTimes returns when the start of a process is over, after the one
// before. One that waits for its hub for longer has little to give back.
func startupTimes() []time.Duration {
	return []time.Duration{3 * time.Second, 30 * time.Second, 10 * time.Minute}
}

// ReleaseMemory gives back memory that is not needed any more until ctx ends. It is to run
// once in a process.
func ReleaseMemory(ctx context.Context, clk clock.Clock) {
	var running sync.WaitGroup
	running.Go(func() { releaseStartupMemory(ctx, clk) })
	running.Go(func() { releaseIdleHeap(ctx, clk) })
	running.Wait()
}

// releaseStartupMemory gives back the memory that only the start needed when it is over.
func releaseStartupMemory(ctx context.Context, clk clock.Clock) {
	for _, wait := range startupTimes() {
		if !backoff.SleepContext(ctx, clk, wait) {
			return
		}
		if err := releaseStartup(); err != nil {
			log.FromContext(ctx).V(1).Info("Keeping the memory that the start needed", "problem", err.Error())
			return
		}
	}
}

// releaseIdleHeap gives back what a burst of work left in the heap when it is over. The
// runtime does so only after minutes, and keeps room for a heap half as large again.
func releaseIdleHeap(ctx context.Context, clk clock.Clock) {
	before := readHeap()
	least := uint64(0) // what the last collection could not give back
	for backoff.SleepContext(ctx, clk, slimEvery) {
		now := readHeap()
		if now.worthCollecting(before, least) {
			runtime.GC() // a sync.Pool gives up what it has with the second collection
			debug.FreeOSMemory()
			now = readHeap()
			least = now.held
		}
		before = now
	}
}

// heap is how much memory the heap has, in bytes.
type heap struct {
	allocated uint64 // since the start
	live      uint64 // found to be in use by the last collection
	held      uint64 // of the system
}

// worthCollecting reports whether nothing much happened since before, and there
// is enough to give back: more than what is in use, and more than least, which
// was left the last time. Spans that are used in part cannot be given back, and
// a collection every slimEvery would be most of what an idle process does.
func (h heap) worthCollecting(before heap, least uint64) bool {
	return h.allocated-before.allocated < max(quietBytesMin, h.live/quietPart) &&
		h.held > h.live+max(wasteBytesMin, h.live/8) && h.held > least+growthBytesMin
}

// readHeap reads the counters of the runtime.
func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
	}
	metrics.Read(samples)
	var values []uint64
	for _, sample := range samples {
		value := uint64(0)
		if sample.Value.Kind() == metrics.KindUint64 { // or else this runtime does not have it
			value = sample.Value.Uint64()
		}
		values = append(values, value)
	}
	return heap{allocated: values[0], live: values[1], held: values[2] + values[3] + values[4]}
}
