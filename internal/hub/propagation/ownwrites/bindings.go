// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ownwrites has what controllers have just written and a cache does not show yet:
// works, which would be created twice, and bindings. Whoever reads an older binding writes
// the same again, and the hub refuses it.
package ownwrites

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/kube/written"
)

// currentMax is for how long the answer to a write of a spec tells what the hub has, as a
// read would. It does for one delivery: works that go after that may have been deleted by
// another controller, for a spec that this one has not heard of.
const currentMax = time.Second

// WrittenBindings are those that were written last, as the hub has returned them. It is
// safe for concurrent use.
type WrittenBindings struct {
	mu sync.Mutex
	// unshown are those that a cache may not show yet.
	unshown *written.RecentWrites[types.NamespacedName, lookup.Binding]
	// current are the specs that the hub had a moment ago.
	current *written.RecentWrites[types.NamespacedName, bindingSpec]
	// gone are those that a cache does not show any more: the answer to a write may come
	// after that.
	gone *written.RecentWrites[types.UID, struct{}]
}

// bindingSpec is what tells the spec of a binding from others.
type bindingSpec struct {
	uid        types.UID
	generation int64
}

func bindingSpecOf(b client.Object) bindingSpec { return bindingSpec{b.GetUID(), b.GetGeneration()} }

// NewWrittenBindings returns WrittenBindings without any.
func NewWrittenBindings(clk clock.PassiveClock) *WrittenBindings {
	return &WrittenBindings{
		unshown: written.NewRecentWrites[types.NamespacedName, lookup.Binding](clk, written.BehindMax),
		current: written.NewRecentWrites[types.NamespacedName, bindingSpec](clk, currentMax),
		gone:    written.NewRecentWrites[types.UID, struct{}](clk, written.BehindMax),
	}
}

// RecordWrite notes a binding that the hub has just returned, as it was created or its spec
// was written.
func (l *WrittenBindings) RecordWrite(b lookup.Binding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.recordUnshown(b) {
		l.current.RecordWrite(client.ObjectKeyFromObject(b), bindingSpecOf(b))
	}
}

// RecordStatusWrite notes a binding that the hub has just returned, as its status was written.
func (l *WrittenBindings) RecordStatusWrite(b lookup.Binding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recordUnshown(b)
}

// recordUnshown notes what a cache may not show yet, and reports whether the hub had nothing newer
// a moment ago. The caller has the lock.
func (l *WrittenBindings) recordUnshown(b lookup.Binding) (latest bool) {
	name := client.ObjectKeyFromObject(b)
	if !b.GetDeletionTimestamp().IsZero() || l.isGone(b.GetUID()) {
		l.forgetBinding(name)
		return false
	}
	if known, is := l.unshown.FindWrite(name); is && isWrittenAfter(known, b) {
		return false // another one was written since, and answered sooner
	}
	l.unshown.RecordWrite(name, deepcopy.CopyObject(b))
	return true
}

// ObserveCached notes a binding that a cache shows.
func (l *WrittenBindings) ObserveCached(b client.Object) {
	name := client.ObjectKeyFromObject(b)
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, is := l.unshown.FindWrite(name); !is || isWrittenAfter(known, b) {
		return
	}
	l.unshown.ForgetWrite(name)
	if !b.GetDeletionTimestamp().IsZero() {
		l.current.ForgetWrite(name)
	}
}

// ObserveGone notes a binding that a cache does not show any more.
func (l *WrittenBindings) ObserveGone(b client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone.RecordWrite(b.GetUID(), struct{}{})
}

// RecordDeletion notes a binding whose deletion the hub has accepted.
func (l *WrittenBindings) RecordDeletion(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetBinding(name)
}

// Since returns the binding of a name if it was written after the one that a cache
// shows, which is nil if it shows none; or else nil.
func (l *WrittenBindings) Since(name types.NamespacedName, shown client.Object) lookup.Binding {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, is := l.unshown.FindWrite(name)
	if !is || l.isGone(known.GetUID()) || shown != nil && !isWrittenAfter(known, shown) {
		return nil
	}
	return deepcopy.CopyObject(known)
}

// Current reports whether the hub had a binding in its generation a moment ago: it
// said so by its answer to a write of its spec, and EndCurrent was not called since.
func (l *WrittenBindings) Current(b client.Object) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, is := l.current.FindWrite(client.ObjectKeyFromObject(b))
	return is && known == bindingSpecOf(b) && !l.isGone(known.uid)
}

// EndCurrent has what was written so far tell nothing more about what the hub has: works were
// delivered by it.
func (l *WrittenBindings) EndCurrent(b client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current.ForgetWrite(client.ObjectKeyFromObject(b))
}

// forgetBinding drops what is known of a binding. The caller has the lock.
func (l *WrittenBindings) forgetBinding(name types.NamespacedName) {
	l.unshown.ForgetWrite(name)
	l.current.ForgetWrite(name)
}

// isGone reports whether a cache has ceased to show a binding. The caller has the lock.
func (l *WrittenBindings) isGone(uid types.UID) bool {
	_, gone := l.gone.FindWrite(uid)
	return gone
}

// isWrittenAfter reports whether the hub has written one after the other.
func isWrittenAfter(one, other client.Object) bool {
	return written.IsAfter(one.GetResourceVersion(), other.GetResourceVersion())
}
