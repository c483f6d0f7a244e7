// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decoding

import (
	"context"
	"fmt"

	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/untrusted/room"
)

const (
	// memoryMax is how many bytes all objects that are not small take at a time once they are
	// decoded, and shareMax how many of these those of one namespace take, which is more than the
	// densest object that etcd stores.
	memoryMax = 384 << 20
	shareMax  = 288 << 20
	// smallMax is what an object takes at most that never waits: one of 1.5 MiB that is a few long
	// texts, or one with 8,000 values.
	smallMax = 2 << 20
)

// Memory is what the objects take together that the workers of a program have decoded. It is safe
// for concurrent use. The workers of a nil Memory wait for nothing.
type Memory struct {
	room *room.Room
	// further has who needs more than it has: one at a time, or all would wait for what the
	// others have.
	further chan struct{}
}

// NewMemory returns the memory of a program that has decoded nothing.
func NewMemory(clk clock.PassiveClock) *Memory {
	return &Memory{room: room.NewRoom(memoryMax, shareMax, clk), further: make(chan struct{}, 1)}
}

// memoryReservation is what a worker has of the memory while it looks at something. One goroutine uses it.
type memoryReservation struct {
	memory *Memory
	// namespace is whose share counts.
	namespace string
	// bytes are those of the largest object that was decoded: of those before it, no more is left
	// as a rule than that much once more.
	bytes int64
	leave func() // the room; nil if it has none
	// further says that whatever else it needs is its own.
	further bool
	// kept says that it has its room until its end.
	kept bool
}

type reservationKey struct{}

// BeginReservation returns a context for what a worker reads while it looks at something of a namespace, in
// one goroutine. What it decodes of that counts until end is called.
func (m *Memory) BeginReservation(ctx context.Context, namespace string) (looking context.Context, end func()) {
	if m == nil {
		return ctx, func() {}
	}
	l := &memoryReservation{memory: m, namespace: namespace}
	return context.WithValue(ctx, reservationKey{}, l), l.releaseMemory
}

// TakeMemory waits until there is room for something that takes so many bytes once it is decoded, unless
// that is small. It fails only if ctx ends, which is of BeginReservation, or it does nothing.
func TakeMemory(ctx context.Context, bytes int64) error {
	if l, is := ctx.Value(reservationKey{}).(*memoryReservation); is {
		return l.takeMemory(ctx, bytes)
	}
	return nil
}

// KeepMemory is TakeMemory for what is used until the end of the reservation, whatever comes before that:
// EndReservation takes no effect any more. Of what was decoded before, nothing may be used. Kept says that
// it is not small, so that others may wait for it.
func KeepMemory(ctx context.Context, bytes int64) (kept bool, err error) {
	l, is := ctx.Value(reservationKey{}).(*memoryReservation)
	if !is || bytes <= smallMax || l.kept {
		return is && l.kept, nil
	}
	l.releaseMemory() // so that nobody who waits has something that others wait for
	if err := l.takeMemory(ctx, bytes); err != nil {
		return false, err
	}
	l.kept = true
	return true, nil
}

// EndReservation is for who goes on to something that has a limit of its own, and may last: what it has
// decoded counts no more, unless that is kept.
func (*Memory) EndReservation(ctx context.Context) {
	if l, is := ctx.Value(reservationKey{}).(*memoryReservation); is && !l.kept {
		l.releaseMemory()
	}
}

func (l *memoryReservation) takeMemory(ctx context.Context, bytes int64) error {
	bytes = min(bytes, shareMax)
	switch {
	case bytes <= smallMax, bytes <= l.bytes, l.further:
		return nil
	case l.leave == nil:
		if l.leave = l.memory.room.AcquireBytes(ctx, l.namespace, bytes); l.leave == nil {
			return wrapWaitError(ctx)
		}
	default: // it keeps what it has meanwhile, and so must not wait for what others keep
		select {
		case l.memory.further <- struct{}{}:
			l.further = true
		case <-ctx.Done():
			return wrapWaitError(ctx)
		}
	}
	l.bytes = bytes
	return nil
}

func wrapWaitError(ctx context.Context) error {
	return fmt.Errorf("waiting until there is memory to decode an object: %w", context.Cause(ctx))
}

func (l *memoryReservation) releaseMemory() {
	if l.leave != nil {
		l.leave()
	}
	if l.further {
		<-l.memory.further
	}
	l.bytes = 0
	l.leave = nil
	l.further = false
	l.kept = false
}
