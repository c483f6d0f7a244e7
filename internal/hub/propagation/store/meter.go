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

	"github.com/capstan-io/capstan/internal/kube/pace"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
)

// reportRate is how many bytes in a second a binding takes whose clusters never rest: one
// of a megabyte is then written four times a minute. reportBurst is how many it takes at once.
const reportRate, reportBurst = 64 << 10, 4 << 20

// WriteMeter spaces the writes of bindings by their bytes: etcd stores a binding whole for each of them, and
// what it overwrites stays until it is compacted. A write is paid for after it was made, with the time that
// passes then. It is safe for concurrent use.
type WriteMeter struct {
	clock  clock.PassiveClock
	spaces *pace.SpaceMeter[allowance.WorkOwner]

	mu       sync.Mutex
	bindings *pace.ByteDebts[types.NamespacedName]
}

// NewWriteMeter returns WriteMeter that has counted nothing yet.
func NewWriteMeter(clk clock.PassiveClock) *WriteMeter {
	return &WriteMeter{
		clock: clk, spaces: pace.NewSpaceMeter[allowance.WorkOwner](), bindings: pace.NewByteDebts[types.NamespacedName](reportRate, reportBurst),
	}
}

// clusterWideKey is that of what WithClusterWide says.
type clusterWideKey struct{}

// WithClusterWide returns a context that says whether a ClusterPropagationPolicy sends the object whose binding is
// written, or that is written itself: that waits for what such policies send of the namespace, and not for what its
// users do. Without it, it is theirs.
func WithClusterWide(ctx context.Context, clusterWide bool) context.Context {
	if clusterWide {
		ctx = selfconflict.WithSpaceApart(ctx)
	}
	return context.WithValue(ctx, clusterWideKey{}, clusterWide)
}

// reportsKey is that of what WithReports says.
type reportsKey struct{}

// WithReports returns a context for writing what clusters report, again and again: they decide of its bytes, and whoever
// changes something in the namespace does not wait for these.
func WithReports(ctx context.Context) context.Context {
	return context.WithValue(ctx, reportsKey{}, pace.CauseReport)
}

// causeOf returns why something is written.
func causeOf(ctx context.Context) pace.WriteCause {
	cause, _ := ctx.Value(reportsKey{}).(pace.WriteCause)
	return cause
}

// ownerOf returns who pays for a write in a namespace.
func ownerOf(ctx context.Context, namespace string) allowance.WorkOwner {
	clusterWide, _ := ctx.Value(clusterWideKey{}).(bool)
	return allowance.WorkOwner{Namespace: namespace, ClusterWide: clusterWide}
}

// WaitBeforeReport returns how long what clusters report has to wait before it is written to a binding, 0 if
// it does not. To ask costs nothing.
func (m *WriteMeter) WaitBeforeReport(ctx context.Context, binding types.NamespacedName) time.Duration {
	now := m.clock.Now()
	m.mu.Lock()
	own := m.bindings.WaitBeforeWrite(binding, now)
	m.mu.Unlock()
	return max(own, m.spaces.WaitBeforeWrite(ownerOf(ctx, binding.Namespace), pace.CauseReport, now))
}

// WaitBeforeChange returns how long the bindings of a namespace have to wait before they are changed, as their
// objects or policies have been.
func (m *WriteMeter) WaitBeforeChange(ctx context.Context, namespace string) time.Duration {
	return m.spaces.WaitBeforeWrite(ownerOf(ctx, namespace), pace.CauseChange, m.clock.Now())
}

// CountWrite counts a write of a binding, as the hub has it since then: as a change, but with WithReports.
func (m *WriteMeter) CountWrite(ctx context.Context, b client.Object) {
	m.CountObjectWrite(ctx, client.ObjectKeyFromObject(b), b)
}

// CountObjectWrite counts a write of the object of a binding as one of the binding.
func (m *WriteMeter) CountObjectWrite(ctx context.Context, binding types.NamespacedName, written client.Object) {
	text, err := json.Marshal(written)
	if err != nil {
		return // the hub has sent it
	}
	now := m.clock.Now()
	m.mu.Lock()
	m.bindings.CountBytes(binding, len(text), now)
	m.mu.Unlock()
	m.spaces.CountWrite(ownerOf(ctx, binding.Namespace), causeOf(ctx), len(text), now)
}
