// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package turns lets few bindings at a time do what takes much memory, one after the
// other, and one namespace after the other. No worker waits for that: a binding whose turn
// has not come is looked at again when it has, and others are looked at meanwhile.
package turns

import (
	"errors"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// ErrWait says that it is the turn of others. The binding is called when it is its own.
var ErrWait = errors.New("it is the turn of other bindings")

// Turns are those of bindings. They are safe for concurrent use, for a binding that is
// looked at by one worker at a time.
type Turns struct {
	// most have a turn at a time, and share of them in one namespace: a tenant may have
	// thousands that take minutes.
	most, share int
	call        func(binding types.NamespacedName)

	mu  sync.Mutex
	has map[types.NamespacedName]bool
	// taken counts all turns, and last has the number of the last one of each namespace that
	// has one or waits for one. A namespace that comes is treated as if it had had the last
	// turn of all, so it waits for those that are here.
	taken int
	last  map[string]int
	// line are those that wait, asked those of them that have said so since they were
	// looked at last, and called those whose turn has come, which nobody takes from them.
	line   []types.NamespacedName
	asked  map[types.NamespacedName]bool
	called map[types.NamespacedName]bool
}

// NewTurns returns turns for so many bindings at a time, one of which is never of the namespace
// of the others. Call is told of a binding that is to be looked at, as its turn has come.
// It must return soon.
func NewTurns(most int, call func(binding types.NamespacedName)) *Turns {
	return &Turns{
		most: most, share: max(1, most-1), call: call,
		has: map[types.NamespacedName]bool{}, last: map[string]int{},
		asked: map[types.NamespacedName]bool{}, called: map[types.NamespacedName]bool{},
	}
}

// Take gives a binding its turn until Done is called, or returns ErrWait.
func (t *Turns) Take(binding types.NamespacedName) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.has[binding] {
		return nil
	}
	if !slices.Contains(t.line, binding) {
		t.line = append(t.line, binding)
	}
	if _, here := t.last[binding.Namespace]; !here {
		t.last[binding.Namespace] = t.taken
	}
	if slices.Contains(t.dueBindings(), binding) {
		t.has[binding] = true
		t.taken++
		t.last[binding.Namespace] = t.taken
		t.leaveLine(binding)
		return nil
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
		t.forgetNamespace(binding.Namespace)
		t.callNext()
	}
}

// MarkLooked says that a binding was looked at. One that waits and did not ask for its turn
// needs none any more.
func (t *Turns) MarkLooked(binding types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked[binding] {
		delete(t.asked, binding)
		return
	}
	if slices.Contains(t.line, binding) {
		t.leaveLine(binding)
		t.forgetNamespace(binding.Namespace)
		t.callNext()
	}
}

// leaveLine takes a binding out of the line. The caller has the lock.
func (t *Turns) leaveLine(binding types.NamespacedName) {
	t.line = slices.DeleteFunc(t.line, func(waits types.NamespacedName) bool { return waits == binding })
	delete(t.asked, binding)
	delete(t.called, binding)
}

// forgetNamespace forgets a namespace of which no binding has a turn or waits. The caller has the
// lock.
func (t *Turns) forgetNamespace(namespace string) {
	of := func(binding types.NamespacedName) bool { return binding.Namespace == namespace }
	if !slices.ContainsFunc(t.line, of) && !slices.ContainsFunc(slices.Collect(maps.Keys(t.has)), of) {
		delete(t.last, namespace)
	}
}

// callNext calls whose turn it is. The caller has the lock.
func (t *Turns) callNext() {
	for _, binding := range t.dueBindings() {
		t.called[binding] = true
		t.call(binding)
	}
}

// dueBindings returns those in the line whose turn it is: those that were called, and then the
// first of the namespace that has had none for longest. The caller has the lock.
func (t *Turns) dueBindings() []types.NamespacedName {
	busy := map[string]int{}
	for binding := range t.has {
		busy[binding.Namespace]++
	}
	var due []types.NamespacedName
	for len(t.has)+len(due) < t.most {
		first := -1
		for place, binding := range t.line {
			if busy[binding.Namespace] >= t.share || slices.Contains(due, binding) {
				continue
			}
			if first < 0 || t.comesBefore(binding, t.line[first]) {
				first = place
			}
		}
		if first < 0 {
			break
		}
		due = append(due, t.line[first])
		busy[t.line[first].Namespace]++
	}
	return due
}

// comesBefore reports whether a binding comes before another that is before it in the line. The
// caller has the lock.
func (t *Turns) comesBefore(binding, other types.NamespacedName) bool {
	if t.called[binding] != t.called[other] {
		return t.called[binding]
	}
	return t.last[binding.Namespace] < t.last[other.Namespace]
}
