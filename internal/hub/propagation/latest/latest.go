// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package latest lets controllers read the bindings that they have just written,
// before a cache shows them: whoever reads an older one writes the same again, and
// the hub refuses it.
package latest

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

const (
	// behindMax is for how long a cache may be behind.
	behindMax = 30 * time.Second
	// CurrentMax is for how long the answer to a write tells what the hub has, as a read
	// would.
	CurrentMax = time.Second
)

// WrittenBindings are those that were written last, as the hub has returned them. It is
// safe for concurrent use.
type WrittenBindings struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	all   map[types.NamespacedName]writtenBinding
	order []writtenEntry // the oldest first
	// gone are those that a cache does not show any more, since when: the answer to a
	// write may come after that.
	gone      map[types.UID]bool
	goneOrder []bindingEnd
}

// writtenBinding is what is known of a binding.
type writtenBinding struct {
	binding    lookup.Binding // nil when a cache shows it
	uid        types.UID
	generation int64
	at         time.Time
}

type writtenEntry struct {
	name types.NamespacedName
	at   time.Time
}

type bindingEnd struct {
	uid types.UID
	at  time.Time
}

// NewWrittenBindings returns WrittenBindings without any.
func NewWrittenBindings(clk clock.PassiveClock) *WrittenBindings {
	return &WrittenBindings{clock: clk, all: map[types.NamespacedName]writtenBinding{}, gone: map[types.UID]bool{}}
}

// RecordWrite notes a binding that the hub has just returned.
func (l *WrittenBindings) RecordWrite(b lookup.Binding) {
	name := client.ObjectKeyFromObject(b)
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expireWrites(now)
	if !b.GetDeletionTimestamp().IsZero() || l.gone[b.GetUID()] {
		delete(l.all, name)
		return
	}
	if known := l.all[name]; known.binding != nil && isWrittenAfter(known.binding, b) {
		return // another one was written since, and answered sooner
	}
	copied := deepcopy.CopyObject(b)
	l.all[name] = writtenBinding{binding: copied, uid: b.GetUID(), generation: b.GetGeneration(), at: now}
	l.order = append(l.order, writtenEntry{name, now})
}

// ObserveCached notes a binding that a cache shows.
func (l *WrittenBindings) ObserveCached(b client.Object) {
	name := client.ObjectKeyFromObject(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expireWrites(l.clock.Now())
	known := l.all[name]
	if known.binding == nil || isWrittenAfter(known.binding, b) {
		return
	}
	if !b.GetDeletionTimestamp().IsZero() {
		delete(l.all, name)
		return
	}
	known.binding = nil
	l.all[name] = known
}

// ObserveGone notes a binding that a cache does not show any more.
func (l *WrittenBindings) ObserveGone(b client.Object) {
	name := client.ObjectKeyFromObject(b)
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expireWrites(now)
	if l.all[name].uid == b.GetUID() {
		delete(l.all, name)
	}
	l.gone[b.GetUID()] = true
	l.goneOrder = append(l.goneOrder, bindingEnd{b.GetUID(), now})
}

// RecordDeletion notes a binding whose deletion the hub has accepted.
func (l *WrittenBindings) RecordDeletion(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, name)
}

// expireWrites drops what is not needed any more. The caller has the lock.
func (l *WrittenBindings) expireWrites(now time.Time) {
	for len(l.order) > 0 {
		first := l.order[0]
		if known, is := l.all[first.name]; is && known.at.Equal(first.at) {
			if age := now.Sub(first.at); age <= CurrentMax || age <= behindMax && known.binding != nil {
				break
			}
			delete(l.all, first.name)
		}
		l.order = l.order[1:]
	}
	for len(l.goneOrder) > 0 && now.Sub(l.goneOrder[0].at) > behindMax {
		delete(l.gone, l.goneOrder[0].uid)
		l.goneOrder = l.goneOrder[1:]
	}
}

// Since returns the binding of a name if it was written after the one that a cache
// shows, which is nil if it shows none; or else nil.
func (l *WrittenBindings) Since(name types.NamespacedName, shown client.Object) lookup.Binding {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.all[name]
	if known.binding == nil || l.clock.Since(known.at) > behindMax || shown != nil && !isWrittenAfter(known.binding, shown) {
		return nil
	}
	copied := deepcopy.CopyObject(known.binding)
	return copied
}

// Current reports whether the hub had a binding in its generation a moment ago: it
// said so by its answer to a write.
func (l *WrittenBindings) Current(b client.Object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, is := l.all[client.ObjectKeyFromObject(b)]
	return is && known.uid == b.GetUID() && known.generation == b.GetGeneration() && l.clock.Since(known.at) <= CurrentMax
}

// isWrittenAfter reports whether the hub has written one after the other.
func isWrittenAfter(one, other client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(one.GetResourceVersion(), other.GetResourceVersion())
	return err == nil && order > 0
}
