// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"maps"
	"time"
)

const (
	// lookEvery is how often one of those that wait is looked at, and lookMax how long each
	// waits at most.
	lookEvery = 250 * time.Millisecond
	lookMax   = 10 * time.Minute
)

// writeCause is why a work is written.
type writeCause int

const (
	// causeChange is that somebody wants something else.
	causeChange writeCause = iota
	// causeDeletion is that somebody wants the work gone.
	causeDeletion
	// causeRepair is that somebody else undid what the hub wrote last, such as an agent, which may do so without end.
	causeRepair
	writeCauses
)

// meterBounds returns how full the meter is, in parts of what may be written at once, when nothing more is written for
// a cause, and when it is again. Deletions come before what is written: whoever writes without end keeps nothing from
// going. Repairs leave half to all else: whoever undoes without end what the hub writes holds up nothing but that.
func (c writeCause) meterBounds() (shut, reopen float64) {
	return [writeCauses]float64{1, 1, 0.5}[c], [writeCauses]float64{0.75, 0.875, 0.375}[c]
}

// burstBytes and bytesPerSecond are not lower with a lower limit: what becomes
// smaller is always written.
func burstBytes(limit int64) int64     { return max(limit, DefaultShared) / burstPart }
func bytesPerSecond(limit int64) int64 { return max(limit, DefaultShared) / secondsFull }

// burstBytes and bytesPerSecond are the part of this program: two that each took all would write twice as much.
func (a *Allowance) burstBytes(limit int64) int64     { return burstBytes(limit) / a.writers }
func (a *Allowance) bytesPerSecond(limit int64) int64 { return bytesPerSecond(limit) / a.writers }

// writeMeter measures what is written to works: a bucket that loses so much in a second. When it is
// full nothing is added until a part of it is free: those that wait are looked at for more
// than one work then.
type writeMeter struct {
	bytes float64
	at    time.Time
	// full says for which causes it was full, and not enough is free since.
	full [writeCauses]bool
	// most and rate are what it was last looked at by.
	most, rate int64
}

// drainMeter takes off what has been lost until now.
func (m *writeMeter) drainMeter(now time.Time, rate int64) {
	if m.at.IsZero() {
		m.at = now
	}
	if passed := now.Sub(m.at); passed > 0 {
		m.bytes = max(0, m.bytes-passed.Seconds()*float64(rate))
		m.at = now
	}
}

// isMeterOpen reports whether something may be written for a cause.
func (m *writeMeter) isMeterOpen(rate, most int64, cause writeCause) bool {
	m.rate = rate
	m.most = most
	for of := range writeCauses {
		shut, reopen := of.meterBounds()
		m.full[of] = m.bytes >= float64(most)*shut || m.full[of] && m.bytes > float64(most)*reopen
	}
	return !m.full[cause]
}

// waitUntilFree returns in how long more may be written for a cause, if nothing else is until then.
func (m *writeMeter) waitUntilFree(cause writeCause) time.Duration {
	_, reopen := cause.meterBounds()
	seconds := (m.bytes - float64(m.most)*reopen) / float64(m.rate)
	return time.Duration(min(max(1, seconds+1), lookMax.Seconds()) * float64(time.Second))
}

// isEmptyMeter reports whether nothing counts any more.
func (m *writeMeter) isEmptyMeter() bool { return m.bytes < 1 }

// waitingLine has those that wait looked at one after the other: each makes all of its works
// for that.
type waitingLine struct {
	last time.Time
	// places is when each is looked at, by the name of its works, and swept how many were left of them when those
	// were dropped that are over.
	places map[string]time.Time
	swept  int
}

// placeInLine returns in how long one is looked at that has to wait for so long at least. Whoever has a place
// keeps it, however often somebody has it looked at before.
func (l *waitingLine) placeInLine(now time.Time, name string, wait time.Duration) time.Duration {
	if place := l.places[name]; place.After(now) {
		return place.Sub(now)
	}
	at := now.Add(wait)
	if next := l.last.Add(lookEvery); next.After(at) {
		at = next
	}
	if most := now.Add(lookMax); at.After(most) {
		at = most
	}
	l.last = at
	l.keepPlace(now, name, at)
	return at.Sub(now)
}

// keepPlace notes a place, and drops those that are over if there are many.
func (l *waitingLine) keepPlace(now time.Time, name string, at time.Time) {
	if len(l.places) >= max(sweepMin, 2*l.swept) {
		maps.DeleteFunc(l.places, func(_ string, place time.Time) bool { return !place.After(now) })
		l.swept = len(l.places)
	}
	if l.places == nil {
		l.places = map[string]time.Time{}
	}
	l.places[name] = at
}
