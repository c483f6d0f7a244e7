// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selfconflict

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/kube/pace"
)

const (
	// WritesDefault is how often an object may be written within WindowDefault.
	WritesDefault = 60
	// WindowDefault is also how long writes are held back before that is reported: what
	// many members report at once is over by then.
	WindowDefault = time.Minute
)

// WrittenObject is an object of the API, as requests name it.
type WrittenObject struct {
	schema.GroupResource
	Namespace, Name string
}

// String is how the object is called in messages: resource, namespace and name.
func (o WrittenObject) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return o.GroupResource.String() + " " + name
}

// compareObject orders objects for messages.
func (o WrittenObject) compareObject(other WrittenObject) int {
	return cmp.Or(cmp.Compare(o.GroupResource.String(), other.GroupResource.String()), cmp.Compare(o.Namespace, other.Namespace), cmp.Compare(o.Name, other.Name))
}

// Conflict is an object whose writes have been held back for longer than a window.
type Conflict struct {
	WrittenObject
	// Since is when the first write was held back.
	Since time.Time
}

// Limits say how often an object may be written.
type Limits struct {
	// Writes is how often within Window; WritesDefault within WindowDefault if zero.
	Writes int
	Window time.Duration
}

// objectPart is an object, or one of its subresources: status has writers of its own.
type objectPart struct {
	WrittenObject
	subresource string
}

// writes is what is known of the writes to a part.
type writes struct {
	// begin is when the window began in which count writes were made.
	begin time.Time
	count int
	// held is when the first write was held back, zero if none was; the next may be
	// made at next.
	held, next time.Time
	// pause is the time between two writes, since when it is as long.
	pause  time.Duration
	paused time.Time
}

// Damper counts the writes of a process and holds back those that are too many. It is
// safe for concurrent use.
type Damper struct {
	limits Limits
	clock  clock.WithTicker

	// spaces are what was written in namespaces.
	spaces *pace.SpaceMeter[writerSpace]

	mu     sync.Mutex
	parts  map[objectPart]*writes
	tidied time.Time
}

// NewDamper returns a damper without a past.
func NewDamper(limits Limits, clk clock.WithTicker) *Damper {
	limits.Writes, limits.Window = cmp.Or(limits.Writes, WritesDefault), cmp.Or(limits.Window, WindowDefault)
	return &Damper{limits: limits, clock: clk, spaces: pace.NewSpaceMeter[writerSpace](), parts: map[objectPart]*writes{}, tidied: clk.Now()}
}

// HeldConflicts returns the objects whose writes are held back for longer than a window, in
// the order of their names.
func (d *Damper) HeldConflicts() []Conflict {
	d.mu.Lock()
	defer d.mu.Unlock()
	since := map[WrittenObject]time.Time{}
	now := d.clock.Now()
	for p, w := range d.parts {
		if w.held.IsZero() || d.isCalm(w, now) || now.Sub(w.held) < d.limits.Window {
			continue
		}
		if earlier, is := since[p.WrittenObject]; !is || w.held.Before(earlier) {
			since[p.WrittenObject] = w.held
		}
	}
	all := make([]Conflict, 0, len(since))
	for object, held := range since {
		all = append(all, Conflict{WrittenObject: object, Since: held})
	}
	slices.SortFunc(all, func(a, b Conflict) int { return a.compareObject(b.WrittenObject) })
	return all
}

// admitWrite returns how long a write has to wait; zero lets it pass, and counts it.
//
// The first writes of a window pass. Each further one waits until as much time has gone
// by as writes in a window have on average, and twice as long after each window in which
// that did not end, up to a window.
func (d *Damper) admitWrite(p objectPart) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.clock.Now()
	d.forgetCalmParts(now)
	w := d.parts[p]
	if w == nil || d.isCalm(w, now) {
		w = &writes{begin: now}
		d.parts[p] = w
	}
	if w.held.IsZero() {
		if w.count++; w.count <= d.limits.Writes {
			return 0
		}
		w.pause = d.limits.Window / time.Duration(d.limits.Writes)
		w.held, w.paused, w.next = now, now, now.Add(w.pause)
	}
	if wait := w.next.Sub(now); wait > 0 {
		return wait
	}
	if now.Sub(w.paused) >= d.limits.Window {
		w.pause = min(2*w.pause, d.limits.Window)
		w.paused = now
	}
	w.next = now.Add(w.pause)
	return 0
}

// isCalm reports whether what was known of a part no longer counts: its window is over, or
// nobody has wanted to write it for a window although it could.
func (d *Damper) isCalm(w *writes, now time.Time) bool {
	if w.held.IsZero() {
		return now.Sub(w.begin) >= d.limits.Window
	}
	return now.Sub(w.next) >= d.limits.Window
}

// forgetCalmParts forgets, once in a window, what no longer counts.
func (d *Damper) forgetCalmParts(now time.Time) {
	if now.Sub(d.tidied) < d.limits.Window {
		return
	}
	d.tidied = now
	for p, w := range d.parts {
		if d.isCalm(w, now) {
			delete(d.parts, p)
		}
	}
}
