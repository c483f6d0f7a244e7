// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package pace

import (
	"maps"
	"sync"
	"time"
)

const (
	// ordinaryBytes is how long an object is, as JSON, of which a namespace may have thousands written at
	// once: all of them together take ordinaryRate bytes in a second, and ordinaryBurst at once. A first
	// roll-out of 10,000 of 6 KiB to ten clusters each, with a dozen writes of each, does not wait.
	ordinaryBytes = 16 << 10
	ordinaryRate  = 1 << 20
	ordinaryBurst = 512 << 20
	// largeRate and largeBurst are for what objects have beyond that.
	largeRate  = 256 << 10
	largeBurst = 64 << 20
	// waitMax is how long a write waits at most: what was written anyway is paid for no longer than that.
	waitMax = 10 * time.Minute
	// debtsMin is for how many debts it is not worth while to look which of them are paid.
	debtsMin = 1024
)

// WriteCause is why something is written.
type WriteCause int

const (
	// CauseChange is that somebody wants something else, and what is said of that first.
	CauseChange WriteCause = iota
	// CauseReport is that something is so, such as what clusters say of an object again and again.
	CauseReport
)

// SpaceMeter spaces what is written in namespaces by its bytes: etcd stores an object whole for each write, and
// what that overwrites stays until it is compacted. A write is paid for after it was made, with the time that
// passes then. Keys say who pays. It is safe for concurrent use.
//
// Who pays for reports does not decide how many there are: a cluster may lie, without end. So reports wait for all
// that was written, and changes for no longer than if they alone had half of the pace.
type SpaceMeter[K comparable] struct {
	mu sync.Mutex
	// all are the debts for whatever was written, and changes those for changes alone.
	all, changes spaceDebts[K]
}

// changesPart is which part of the pace reports leave to changes.
const changesPart = 2

// NewSpaceMeter returns SpaceMeter that has counted nothing yet.
func NewSpaceMeter[K comparable]() *SpaceMeter[K] {
	return &SpaceMeter[K]{all: newSpaceDebts[K](1), changes: newSpaceDebts[K](changesPart)}
}

// WaitBeforeWrite returns how long somebody has to wait before the next write, 0 if he has not. To ask costs nothing.
func (m *SpaceMeter[K]) WaitBeforeWrite(key K, cause WriteCause, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := m.all.waitBeforeWrite(key, now)
	if cause == CauseChange {
		wait = min(wait, m.changes.waitBeforeWrite(key, now))
	}
	return wait
}

// CountWrite counts the write of an object of so many bytes.
func (m *SpaceMeter[K]) CountWrite(key K, cause WriteCause, bytes int, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.countObject(key, bytes, now)
	if cause == CauseChange {
		m.changes.countObject(key, bytes, now)
	}
}

// spaceDebts are the debts for what objects have up to an ordinary length, and beyond that.
type spaceDebts[K comparable] struct{ large, ordinary *ByteDebts[K] }

func newSpaceDebts[K comparable](part int) spaceDebts[K] {
	return spaceDebts[K]{large: NewByteDebts[K](largeRate/part, largeBurst/part), ordinary: NewByteDebts[K](ordinaryRate/part, ordinaryBurst/part)}
}

func (d spaceDebts[K]) waitBeforeWrite(key K, now time.Time) time.Duration {
	return max(d.large.WaitBeforeWrite(key, now), d.ordinary.WaitBeforeWrite(key, now))
}

func (d spaceDebts[K]) countObject(key K, bytes int, now time.Time) {
	d.large.CountBytes(key, bytes-ordinaryBytes, now)
	d.ordinary.CountBytes(key, min(bytes, ordinaryBytes), now)
}

// ByteDebts are until when what each has written is being paid for. They are not safe for concurrent use.
type ByteDebts[K comparable] struct {
	inASecond, atOnce int
	until             map[K]time.Time
	// swept is how many there were after the last look for what is paid.
	swept int
}

// NewByteDebts returns the debts of those who have written nothing yet: each may write so many bytes at once,
// and so many in a second after that.
func NewByteDebts[K comparable](inASecond, atOnce int) *ByteDebts[K] {
	return &ByteDebts[K]{inASecond: inASecond, atOnce: atOnce, until: map[K]time.Time{}}
}

func (d *ByteDebts[K]) timeFor(bytes int) time.Duration {
	return time.Duration(bytes) * time.Second / time.Duration(d.inASecond)
}

// WaitBeforeWrite returns how long somebody has to wait before the next write, 0 if he has not.
func (d *ByteDebts[K]) WaitBeforeWrite(key K, now time.Time) time.Duration {
	until, owes := d.until[key]
	if !owes || until.Before(now) {
		return 0
	}
	return max(0, until.Sub(now)-d.timeFor(d.atOnce))
}

// CountBytes counts what somebody has written.
func (d *ByteDebts[K]) CountBytes(key K, bytes int, now time.Time) {
	if bytes <= 0 {
		return
	}
	if len(d.until) > 2*d.swept+debtsMin {
		maps.DeleteFunc(d.until, func(_ K, until time.Time) bool { return until.Before(now) })
		d.swept = len(d.until)
	}
	from := d.until[key]
	if from.Before(now) {
		from = now
	}
	until := from.Add(d.timeFor(bytes))
	if most := now.Add(d.timeFor(d.atOnce) + waitMax); until.After(most) {
		until = most
	}
	d.until[key] = until
}
