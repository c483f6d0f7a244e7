// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/backoff"
)

// ObjectWaiters are the works that want an object which they do not own yet. The
// zero value is none. They are safe for concurrent use.
type ObjectWaiters struct {
	mu    sync.Mutex
	works map[apply.ObjectRef]map[string]struct{}
}

// AddWaiter makes a work wait for a change of the object.
func (w *ObjectWaiters) AddWaiter(work string, object apply.ObjectRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.works == nil {
		w.works = map[apply.ObjectRef]map[string]struct{}{}
	}
	if w.works[object] == nil {
		w.works[object] = map[string]struct{}{}
	}
	w.works[object][work] = struct{}{}
}

// TakeWaiters returns who waits for the object, and forgets that they do.
func (w *ObjectWaiters) TakeWaiters(object apply.ObjectRef) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	works := slices.Collect(maps.Keys(w.works[object]))
	delete(w.works, object)
	return works
}

// ForgetWork drops a work that is gone.
func (w *ObjectWaiters) ForgetWork(work string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for object, works := range w.works {
		delete(works, work)
		if len(works) == 0 {
			delete(w.works, object)
		}
	}
}

// postponedAtOnce is how many postponed works are brought back at a time: what
// could wait for a burst must not hold up what comes right after it.
const postponedAtOnce = 2

// PostponedWorks are works of which something is left to do that could wait while
// there was much else. The zero value is none. It is safe for concurrent use.
type PostponedWorks struct {
	mu    sync.Mutex
	works map[string]struct{}
	// taken are those that were brought back and are not done.
	taken map[string]struct{}
}

// PostponeWork notes a work.
func (p *PostponedWorks) PostponeWork(work string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.works == nil {
		p.works = map[string]struct{}{}
		p.taken = map[string]struct{}{}
	}
	p.works[work] = struct{}{}
}

// TakeNext returns one of the works, which is not noted any more, and false if there
// is none or enough that were taken are not marked as done.
func (p *PostponedWorks) TakeNext() (work string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.taken) >= postponedAtOnce {
		return "", false
	}
	for work := range p.works {
		delete(p.works, work)
		p.taken[work] = struct{}{}
		return work, true
	}
	return "", false
}

// MarkDone says that a work was looked at, whether or not it had been taken.
func (p *PostponedWorks) MarkDone(work string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.taken, work)
}

// LeavingOwners are the owners whose objects are all on their way out: of these only
// the last one that goes is of interest. The zero value is none. It is safe for
// concurrent use.
type LeavingOwners struct {
	mu     sync.Mutex
	owners map[types.UID]struct{}
}

// SetLeaving notes whether the objects of an owner are on their way out.
func (l *LeavingOwners) SetLeaving(owner types.UID, leaving bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !leaving {
		delete(l.owners, owner)
		return
	}
	if l.owners == nil {
		l.owners = map[types.UID]struct{}{}
	}
	l.owners[owner] = struct{}{}
}

// IsLeaving reports whether the objects of an owner are on their way out.
func (l *LeavingOwners) IsLeaving(owner types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, leaving := l.owners[owner]
	return leaving
}

// deniedRetryMin and deniedRetryMax bound the time after which an object is
// tried again that the executor may not write; it doubles. A role that was
// given a moment ago is known at once, and one that was not costs little.
const (
	deniedRetryMin = time.Second
	deniedRetryMax = time.Minute
)

// ExecutorDenials are the works whose executor lacks a permission, and how often in a
// row it did. The zero value is none. They are safe for concurrent use.
type ExecutorDenials struct {
	mu     sync.Mutex
	counts map[string]int
}

// CountDenial counts a denial, and returns when to try again.
func (d *ExecutorDenials) CountDenial(work string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.counts == nil {
		d.counts = map[string]int{}
	}
	d.counts[work]++
	return backoff.DelayAfter(d.counts[work], backoff.ExponentialBetween(deniedRetryMin, deniedRetryMax))
}

// ForgetWork forgets how often the executor of a work lacked a permission.
func (d *ExecutorDenials) ForgetWork(work string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.counts, work)
}

// RetryAll returns the works whose executor lacks a permission, as someone may
// have given it, and how soon to try again: many changes at once are one.
func (d *ExecutorDenials) RetryAll() (works []string, after time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for work := range d.counts {
		d.counts[work] = 0
		works = append(works, work)
	}
	return works, deniedRetryMin
}
