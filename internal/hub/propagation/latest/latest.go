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
)

const (
	// behindMax is for how long a cache may be behind.
	behindMax = 30 * time.Second
	// CurrentMax is for how long the answer to a write tells what the hub has, as a read
	// would.
	CurrentMax = time.Second
)

// Bindings are those that were written last, as the hub has returned them. It is
// safe for concurrent use.
type Bindings struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	all   map[types.NamespacedName]written
	order []turn // the oldest first
	// gone are those that a cache does not show any more, since when: the answer to a
	// write may come after that.
	gone      map[types.UID]bool
	goneOrder []end
}

// written is what is known of a binding.
type written struct {
	binding    lookup.Binding // nil when a cache shows it
	uid        types.UID
	generation int64
	at         time.Time
}

type turn struct {
	name types.NamespacedName
	at   time.Time
}

type end struct {
	uid types.UID
	at  time.Time
}

// New returns Bindings without any.
func New(clk clock.PassiveClock) *Bindings {
	return &Bindings{clock: clk, all: map[types.NamespacedName]written{}, gone: map[types.UID]bool{}}
}

// Wrote notes a binding that the hub has just returned.
func (l *Bindings) Wrote(b lookup.Binding) {
	name := client.ObjectKeyFromObject(b)
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	if !b.GetDeletionTimestamp().IsZero() || l.gone[b.GetUID()] {
		delete(l.all, name)
		return
	}
	if known := l.all[name]; known.binding != nil && newer(known.binding, b) {
		return // another one was written since, and answered sooner
	}
	copied, _ := b.DeepCopyObject().(lookup.Binding)
	l.all[name] = written{binding: copied, uid: b.GetUID(), generation: b.GetGeneration(), at: now}
	l.order = append(l.order, turn{name, now})
}

// Saw notes a binding that a cache shows.
func (l *Bindings) Saw(b client.Object) {
	name := client.ObjectKeyFromObject(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(l.clock.Now())
	known := l.all[name]
	if known.binding == nil || newer(known.binding, b) {
		return
	}
	if !b.GetDeletionTimestamp().IsZero() {
		delete(l.all, name)
		return
	}
	known.binding = nil
	l.all[name] = known
}

// Gone notes a binding that a cache does not show any more.
func (l *Bindings) Gone(b client.Object) {
	name := client.ObjectKeyFromObject(b)
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(now)
	if l.all[name].uid == b.GetUID() {
		delete(l.all, name)
	}
	l.gone[b.GetUID()] = true
	l.goneOrder = append(l.goneOrder, end{b.GetUID(), now})
}

// Deleted notes a binding whose deletion the hub has accepted.
func (l *Bindings) Deleted(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, name)
}

// expire drops what is not needed any more. The caller has the lock.
func (l *Bindings) expire(now time.Time) {
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
func (l *Bindings) Since(name types.NamespacedName, shown client.Object) lookup.Binding {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.all[name]
	if known.binding == nil || l.clock.Since(known.at) > behindMax || shown != nil && !newer(known.binding, shown) {
		return nil
	}
	copied, _ := known.binding.DeepCopyObject().(lookup.Binding)
	return copied
}

// Current tells whether the hub had a binding in its generation a moment ago: it
// said so by its answer to a write.
func (l *Bindings) Current(b client.Object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, is := l.all[client.ObjectKeyFromObject(b)]
	return is && known.uid == b.GetUID() && known.generation == b.GetGeneration() && l.clock.Since(known.at) <= CurrentMax
}

// newer tells whether the hub has written one after the other.
func newer(one, other client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(one.GetResourceVersion(), other.GetResourceVersion())
	return err == nil && order > 0
}
