// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

const (
	// reportRate is how many bytes in a second a binding takes whose clusters never rest: one
	// of a megabyte is then written four times a minute. reportBurst is how many it takes at once.
	reportRate  = 64 << 10
	reportBurst = 4 << 20
	// ordinaryBytes is how long a binding is, as JSON, whose writes count for nothing in its namespace.
	// Of what is longer, all bindings of a namespace take spaceRate bytes in a second, and spaceBurst
	// at once.
	ordinaryBytes = 16 << 10
	spaceRate     = 256 << 10
	spaceBurst    = 64 << 20
	// waitMax is how long a write waits at most: what was written anyway is paid for no longer than that.
	waitMax = 10 * time.Minute
	// sweptMin is for how many debts it is not worth while to look which of them are paid.
	sweptMin = 1024
)

// WriteMeter spaces the writes of bindings by their bytes: etcd stores a binding whole for each of them, and
// what it overwrites stays until it is compacted. A write is paid for after it was made, with the time that
// passes then. It is safe for concurrent use.
type WriteMeter struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	bindings writeDebts[types.NamespacedName]
	spaces   writeDebts[allowance.WorkOwner]
}

// NewWriteMeter returns WriteMeter that has counted nothing yet.
func NewWriteMeter(clk clock.PassiveClock) *WriteMeter {
	return &WriteMeter{
		clock: clk, bindings: writeDebts[types.NamespacedName]{rate: reportRate, burst: reportBurst}, spaces: writeDebts[allowance.WorkOwner]{rate: spaceRate, burst: spaceBurst},
	}
}

// clusterWideKey is that of what WithClusterWide says.
type clusterWideKey struct{}

// WithClusterWide returns a context that says whether a ClusterPropagationPolicy sends the object whose binding is
// written: that waits for what such policies send of the namespace, and not for what its users do. Without it, it is theirs.
func WithClusterWide(ctx context.Context, clusterWide bool) context.Context {
	return context.WithValue(ctx, clusterWideKey{}, clusterWide)
}

// ownerOf returns who pays for a write in a namespace.
func ownerOf(ctx context.Context, namespace string) allowance.WorkOwner {
	clusterWide, _ := ctx.Value(clusterWideKey{}).(bool)
	return allowance.WorkOwner{Namespace: namespace, ClusterWide: clusterWide}
}

// WaitBeforeReport returns how long what clusters report has to wait before it is written to a binding, 0 if
// it does not. To ask costs nothing.
func (m *WriteMeter) WaitBeforeReport(ctx context.Context, binding types.NamespacedName) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	return max(m.bindings.waitFor(binding, now), m.spaces.waitFor(ownerOf(ctx, binding.Namespace), now))
}

// WaitBeforeChange returns how long the bindings of a namespace have to wait before they are changed, as their
// objects or policies have been.
func (m *WriteMeter) WaitBeforeChange(ctx context.Context, namespace string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spaces.waitFor(ownerOf(ctx, namespace), m.clock.Now())
}

// CountWrite counts a write of a binding, as the hub has it since then.
func (m *WriteMeter) CountWrite(ctx context.Context, b client.Object) {
	m.CountObjectWrite(ctx, client.ObjectKeyFromObject(b), b)
}

// CountObjectWrite counts a write of the object of a binding as one of the binding.
func (m *WriteMeter) CountObjectWrite(ctx context.Context, binding types.NamespacedName, written client.Object) {
	text, err := json.Marshal(written)
	if err != nil {
		return // the hub has sent it
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock.Now()
	m.bindings.addBytes(binding, len(text), now)
	m.spaces.addBytes(ownerOf(ctx, binding.Namespace), len(text)-ordinaryBytes, now)
}

// writeDebts are until when writes are being paid for.
type writeDebts[K comparable] struct {
	rate, burst int
	until       map[K]time.Time
	// swept is how many there were after the last look for what is paid.
	swept int
}

func (d *writeDebts[K]) timeFor(bytes int) time.Duration {
	return time.Duration(bytes) * time.Second / time.Duration(d.rate)
}

func (d *writeDebts[K]) waitFor(key K, now time.Time) time.Duration {
	until, owes := d.until[key]
	if !owes || until.Before(now) {
		return 0
	}
	return max(0, until.Sub(now)-d.timeFor(d.burst))
}

func (d *writeDebts[K]) addBytes(key K, bytes int, now time.Time) {
	if bytes <= 0 {
		return
	}
	if len(d.until) > 2*d.swept+sweptMin {
		for other, until := range d.until {
			if until.Before(now) {
				delete(d.until, other)
			}
		}
		d.swept = len(d.until)
	}
	if d.until == nil {
		d.until = map[K]time.Time{}
	}
	from := d.until[key]
	if from.Before(now) {
		from = now
	}
	until := from.Add(d.timeFor(bytes))
	if most := now.Add(d.timeFor(d.burst) + waitMax); until.After(most) {
		until = most
	}
	d.until[key] = until
}
