// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package turns lets few bindings at a time do what takes much memory, one after the
// other. No worker waits for that: a binding whose turn has not come is looked at again
// when it has, and others are looked at meanwhile.
package turns

import (
	"errors"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// ErrWait says that it is the turn of others. The binding is called when it is its own.
var ErrWait = errors.New("it is the turn of other bindings")

// Turns are those of bindings. They are safe for concurrent use, for a binding that is
// looked at by one worker at a time.
type Turns struct {
	most int
	call func(binding types.NamespacedName)

	mu  sync.Mutex
	has map[types.NamespacedName]bool
	// line are those that wait, and asked those of them that have said so since they
	// were looked at last.
	line  []types.NamespacedName
	asked map[types.NamespacedName]bool
}

// New returns turns for so many bindings at a time. Call is told of a binding that is
// to be looked at, as its turn has come. It must return soon.
func New(most int, call func(binding types.NamespacedName)) *Turns {
	return &Turns{most: most, call: call, has: map[types.NamespacedName]bool{}, asked: map[types.NamespacedName]bool{}}
}

// Take gives a binding its turn until Done is called, or returns ErrWait.
func (t *Turns) Take(binding types.NamespacedName) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.has[binding] {
		return nil
	}
	place := slices.Index(t.line, binding)
	if place < 0 {
		place = len(t.line)
	}
	if place < t.most-len(t.has) {
		t.has[binding] = true
		t.leave(binding)
		return nil
	}
	if place == len(t.line) {
		t.line = append(t.line, binding)
	}
	t.asked[binding] = true
	return ErrWait
}

// Done ends the turn of a binding, if it has one, and calls whose turn it is then.
func (t *Turns) Done(binding types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.has[binding] {
		delete(t.has, binding)
		t.next()
	}
}

// Looked says that a binding was looked at. One that waits and did not ask for its turn
// needs none any more.
func (t *Turns) Looked(binding types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked[binding] {
		delete(t.asked, binding)
		return
	}
	if slices.Contains(t.line, binding) {
		t.leave(binding)
		t.next()
	}
}

// leave takes a binding out of the line. The caller has the lock.
func (t *Turns) leave(binding types.NamespacedName) {
	t.line = slices.DeleteFunc(t.line, func(waits types.NamespacedName) bool { return waits == binding })
	delete(t.asked, binding)
}

// next calls whose turn it is. The caller has the lock.
func (t *Turns) next() {
	for _, binding := range t.line[:min(len(t.line), t.most-len(t.has))] {
		t.call(binding)
	}
}
