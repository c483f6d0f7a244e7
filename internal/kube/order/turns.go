// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"
	"container/heap"
	"maps"
	"time"
)

// aheadMin is from how many namespaces on those are forgotten that need not wait.
const aheadMin = 64

// Turns say which namespace is next with one worker: the one whose turns have taken least time, of those the
// one that came first. One that comes begins with what the namespace has taken that had the last
// turn, so that nobody saves time for later. They are not safe for concurrent use. The zero value has none.
type Turns struct {
	line line
	came int // counts those that came
	// now is the turn that has begun last, and taken says that it has not ended.
	now   turn
	taken bool
	// ahead are namespaces without changes that have taken more time than those that come.
	ahead map[string]time.Duration
	sweep int
}

// turn is one of a namespace that has taken so much time before.
type turn struct {
	namespace string
	took      time.Duration
	came      int
}

// Come puts a namespace into the line that is not there, unless it is its turn.
func (t *Turns) Come(namespace string) {
	if t.taken && t.now.namespace == namespace {
		return
	}
	t.wait(turn{namespace: namespace, took: max(t.now.took, t.ahead[namespace])})
	delete(t.ahead, namespace)
}

// Waiting returns how many are in the line.
func (t *Turns) Waiting() int { return len(t.line) }

func (t *Turns) wait(one turn) {
	t.came++
	one.came = t.came
	heap.Push(&t.line, one)
}

// Begin returns the namespace whose turn begins. It is false if none is in the line.
func (t *Turns) Begin() (namespace string, is bool) {
	if len(t.line) == 0 {
		return "", false
	}
	t.now = heap.Pop(&t.line).(turn)
	t.taken = true
	return t.now.namespace, true
}

// End ends a turn that took so long. The namespace is in the line again if it has more.
func (t *Turns) End(took time.Duration, more bool) {
	t.taken = false
	after := turn{namespace: t.now.namespace, took: t.now.took + took}
	if more {
		t.wait(after)
		return
	}
	if len(t.ahead) >= max(aheadMin, t.sweep) {
		maps.DeleteFunc(t.ahead, func(_ string, took time.Duration) bool { return took <= t.now.took })
		t.sweep = 2 * len(t.ahead)
	}
	if t.ahead == nil {
		t.ahead = map[string]time.Duration{}
	}
	t.ahead[after.namespace] = after.took
}

// line is a heap of turns, the next one first.
type line []turn

func (l line) Len() int      { return len(l) }
func (l line) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l line) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(l[i].took, l[j].took), cmp.Compare(l[i].came, l[j].came)) < 0
}
func (l *line) Push(one any) { *l = append(*l, one.(turn)) }
func (l *line) Pop() any {
	last := len(*l) - 1
	one := (*l)[last]
	*l = (*l)[:last]
	return one
}
