// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package allowance bounds what the works of the bindings and ManifestWorkReplicaSets of a
// namespace take up on the hub, and how fast they are written; and what those of all namespaces do
// for which no administrator has set a limit. A work is in the namespace of its cluster, where no
// ResourceQuota of whoever wrote its object counts it, and there is one for each cluster. What is
// written, and when, is for others to decide.
//
// What ClusterPropagationPolicies send of a namespace is an administrator's, and counts apart from
// what the users of the namespace send.
package allowance

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/written"
)

const (
	// heldFor is how long a namespace counts as held back since one of its works was: whoever
	// waits is looked at again before.
	heldFor = 15 * time.Minute
	// sweepMin is from how many namespaces on those are looked for that have nothing.
	sweepMin = 64
)

// Allowance knows what the works of each namespace take up. It is safe for concurrent use.
type Allowance struct {
	clock clock.PassiveClock

	// writers is how many programs share what is written in a second.
	writers int64

	mu    sync.Mutex
	of    map[WorkOwner]*account
	pool  pool
	sweep int // how many there have to be for the next sweep
	swept time.Time
}

// account is what the works of one owner take up.
type account struct {
	owner WorkOwner
	// limit is the owner's own in bytes; nil is none, and its bytes are in the pool.
	limit *int64
	// bytes are those of the works in the cache, when all is written that was begun: begun are the
	// works that are written and that the cache does not show yet.
	bytes int64
	begun map[types.NamespacedName]begunWrite
	meter writeMeter
	lines [writeCauses]waitingLine
	held  map[HoldReason]time.Time // when works were last held back
}

// begunWrite is a work that is being written.
type begunWrite struct {
	bytes, more int64  // what it has then, and how much more that is than it has
	version     string // the work as it was before
	cause       writeCause
	since       time.Time
}

// repeatsWrite reports whether a write is the one that was begun, which the cache does not show yet. A work
// is deleted once, whatever happens to it meanwhile.
func (b begunWrite) repeatsWrite(w WorkWrite) bool {
	if b.cause == causeDeletion || w.writeCause() == causeDeletion {
		return b.cause == w.writeCause()
	}
	return b.bytes == w.Bytes && b.version == w.Version
}

// isShownBy reports whether a work is as it was to be written.
func (b begunWrite) isShownBy(work *workv1.ManifestWork) bool {
	if b.cause == causeDeletion {
		return !work.DeletionTimestamp.IsZero()
	}
	return b.bytes == WorkBytes(work)
}

// WorkWrite is a work that is to be written.
type WorkWrite struct {
	Work types.NamespacedName
	// Has is how many bytes it has already, 0 if it is new or counts for another owner until now,
	// and Bytes how many it is to have.
	Has, Bytes int64
	// Version is the resourceVersion that it has in the cache, empty if it is new.
	Version string
	// Repairs says that the work is made again what it was: somebody else undid what the hub wrote last.
	Repairs bool

	deletes bool
}

// writeCause returns why the work is written.
func (w WorkWrite) writeCause() writeCause {
	switch {
	case w.deletes:
		return causeDeletion
	case w.Repairs:
		return causeRepair
	}
	return causeChange
}

// WriteOf returns the write of a work; present is nil for a new one.
func WriteOf(wanted, present *workv1.ManifestWork) WorkWrite {
	w := WorkWrite{Work: client.ObjectKeyFromObject(wanted), Bytes: WorkBytes(wanted)}
	if present != nil {
		w.Version = present.ResourceVersion
		if OwnerOf(present) == OwnerOf(wanted) {
			w.Has = WorkBytes(present)
		}
	}
	return w
}

// NewAllowance returns the allowance of namespaces that have no works yet. Those without a limit of their
// own have so many bytes together. It is for one of so many programs that write works of them: each
// sees what the others have written, and has its part of what is written in a second.
func NewAllowance(clk clock.PassiveClock, shared, writers int64) *Allowance {
	return &Allowance{clock: clk, of: map[WorkOwner]*account{}, pool: pool{limit: shared}, writers: writers, sweep: sweepMin}
}

// SetLimit takes in the limit of an owner in bytes, nil if it has none of its own.
func (a *Allowance) SetLimit(owner WorkOwner, limit *int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit == nil && a.of[owner] == nil {
		return
	}
	of := a.accountOfOwner(owner)
	bytes := of.bytes
	a.addBytes(of, -bytes)
	of.limit = limit
	a.addBytes(of, bytes)
}

// ObserveWork takes in what a watch tells of a work; nil is none.
func (a *Allowance) ObserveWork(before, after *workv1.ManifestWork) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.countWork(before, -1)
	a.countWork(after, 1)
	shown := after
	if after == nil {
		shown = before
	}
	if of := a.of[OwnerOf(shown)]; of != nil {
		if key := client.ObjectKeyFromObject(shown); after == nil || of.begun[key].isShownBy(after) {
			a.endWrite(of, key)
		}
	}
}

// countWork adds the bytes of a work to those that are shown, or takes them off. The caller has
// the lock.
func (a *Allowance) countWork(work *workv1.ManifestWork, sign int64) {
	if work == nil {
		return
	}
	if owner := OwnerOf(work); owner != (WorkOwner{}) {
		a.addBytes(a.accountOfOwner(owner), sign*WorkBytes(work))
	}
}

// addBytes counts bytes of an owner. The caller has the lock.
func (a *Allowance) addBytes(of *account, bytes int64) {
	of.bytes += bytes
	if of.limit == nil {
		a.pool.bytes += bytes
	}
}

// beginWrite notes that a work is being written, and end that this has come to an end. The caller has
// the lock.
func (a *Allowance) beginWrite(of *account, key types.NamespacedName, one begunWrite) {
	a.endWrite(of, key)
	of.begun[key] = one
	a.addBytes(of, max(0, one.more))
}

func (a *Allowance) endWrite(of *account, key types.NamespacedName) {
	a.addBytes(of, -max(0, of.begun[key].more))
	delete(of.begun, key)
}

// AdmitWrites decides which works of an owner are written now. Those that become smaller are not held
// back, except by the rate.
func (a *Allowance) AdmitWrites(owner WorkOwner, writes []WorkWrite) HeldWorks {
	return a.decideWrites(owner, func(p *admissionPass) {
		for _, w := range writes {
			p.admitWrite(w)
		}
	})
}

// decideWrites has a function decide about works of an owner, and returns what is held back of them.
func (a *Allowance) decideWrites(owner WorkOwner, about func(*admissionPass)) HeldWorks {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	a.dropStaleWrites(now)
	p := admissionPass{Allowance: a, account: a.accountOfOwner(owner), now: now}
	about(&p)
	p.held.Owner, p.held.Bytes, p.held.Limit, p.held.own = owner, p.bytes, p.maxOwnerBytes(), p.limit != nil
	p.held.room = p.sharedRoom()
	p.held.shared = a.pool.limit
	p.held.writers = a.writers
	p.held.repairs = p.waiting == [writeCauses]bool{causeRepair: true}
	if p.held.AnyHeld() {
		p.held.Again = p.retryDelay()
	}
	return p.held
}

// ReportFailedWrites says that works of a name which were admitted could not be written, by cluster. Those that have a pace
// alone, and of which all clusters have some, get back what they took of it: or else clusters that can be sent nothing,
// and are tried again and again, would hold up all others. So does what repairs works that somebody changes without end.
func (a *Allowance) ReportFailedWrites(owner WorkOwner, work string, failed map[string]error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of := a.of[owner]; of != nil {
		for cluster := range failed {
			key := types.NamespacedName{Namespace: cluster, Name: work}
			if one := of.begun[key]; owner.isUncounted() || one.cause == causeRepair {
				a.refundWrite(of, one)
			}
			a.endWrite(of, key)
		}
	}
}

// refundWrite gives back what a write took of the pace. The caller has the lock.
func (a *Allowance) refundWrite(of *account, one begunWrite) {
	back := min(of.meter.bytes, float64(one.bytes))
	of.meter.bytes -= back
	if of.limit == nil {
		a.pool.meter.bytes = max(0, a.pool.meter.bytes-back)
	}
}

// HeldBack returns how many namespaces have works that were held back of late, by the reason. What is in no
// namespace counts as one.
func (a *Allowance) HeldBack() map[HoldReason]int {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	names := map[HoldReason]sets.Set[string]{Full: {}, HubFull: {}, Throttled: {}}
	for owner, of := range a.of {
		for reason := range of.held {
			if of.heldBack(reason, now) {
				names[reason].Insert(owner.Namespace)
			}
		}
	}
	count := map[HoldReason]int{}
	for reason, namespaces := range names {
		count[reason] = namespaces.Len()
	}
	return count
}

// heldBack reports whether works were held back of late for a reason.
func (a *account) heldBack(why HoldReason, now time.Time) bool {
	last, is := a.held[why]
	return is && now.Sub(last) < heldFor
}

// accountOfOwner returns that of an owner. The caller has the lock.
func (a *Allowance) accountOfOwner(owner WorkOwner) *account {
	if of := a.of[owner]; of != nil {
		return of
	}
	if now := a.clock.Now(); len(a.of) >= a.sweep {
		maps.DeleteFunc(a.of, func(_ WorkOwner, of *account) bool { return of.isEmptyAccount(now) })
		a.sweep = max(sweepMin, 2*len(a.of))
	}
	of := &account{owner: owner, begun: map[types.NamespacedName]begunWrite{}, held: map[HoldReason]time.Time{}}
	if owner.isUncounted() {
		of.limit = new(a.pool.limit) // its pace is that of a namespace which has as much for itself alone
	}
	a.of[owner] = of
	return of
}

// isEmptyAccount reports whether an account says no more than a new one.
func (a *account) isEmptyAccount(now time.Time) bool {
	for reason := range a.held {
		if a.heldBack(reason, now) {
			return false
		}
	}
	return a.limit == nil && a.bytes == 0 && len(a.begun) == 0 && a.meter.isEmptyMeter()
}

// dropStaleWrites drops what was begun so long ago that the cache would show it. The caller has the lock.
func (a *Allowance) dropStaleWrites(now time.Time) {
	if now.Sub(a.swept) < written.BehindMax/2 {
		return
	}
	for _, of := range a.of {
		for key, one := range of.begun {
			if now.Sub(one.since) >= written.BehindMax {
				a.endWrite(of, key)
			}
		}
	}
	a.swept = now
}
