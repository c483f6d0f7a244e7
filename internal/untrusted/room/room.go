// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package room shares out what many have together of something, such as memory, so that none of
// those who want some of it keeps the others waiting for long.
//
// It does not know what it is: who enters says how much that takes.
package room

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// sendersMax is of how many senders a room remembers what they have used who are not here.
	sendersMax = 1024
	// headStart is for how long who comes may hold its share before others are due again.
	headStart = time.Second
)

// Room is what requests have together that are in work at a time: bytes, of which one
// sender has a share at most. Who has used the least of it has the next turn, measured in
// bytes and the time that they were held. So API servers, whose requests are here at once,
// do not wait behind senders who keep what they have for as long as they may, however many
// these are. It is safe for concurrent use.
type Room struct {
	size, share int64
	clock       clock.PassiveClock

	mu      sync.Mutex
	free    int64
	senders map[string]*usage // by name, such as an address
	line    []*requestTurn    // in the order in which they came
	// begun is how much the sender had used whose turn came last.
	begun float64
}

// usage is what a sender has of the room.
type usage struct {
	// used are the bytes that it has had, times the seconds.
	used float64
	held int64
	// here is how many of its requests wait or are in work.
	here int
}

// requestTurn is that of a request.
type requestTurn struct {
	sender *usage
	bytes  int64
	came   chan struct{} // closed when it has come
	began  time.Time     // when that was
}

// NewRoom returns the room for so many bytes at a time, of which one sender has no more than a share.
func NewRoom(size, share int64, clock clock.PassiveClock) *Room {
	return &Room{size: size, share: share, clock: clock, free: size, senders: map[string]*usage{}}
}

// AcquireBytes waits until there are so many bytes of room for a request of a sender, which may be
// no more than its share. It returns how to leave, and nil if ctx ends before.
func (r *Room) AcquireBytes(ctx context.Context, sender string, bytes int64) (leave func()) {
	mine := r.joinLine(sender, bytes)
	select {
	case <-mine.came:
	case <-ctx.Done():
		if r.withdrawTurn(mine) {
			return nil
		}
	}
	return sync.OnceFunc(func() { r.endTurn(mine) })
}

// WaitingCount returns how many requests wait for their turn.
func (r *Room) WaitingCount() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.line)
}

// IsEmpty reports whether no request is in work or waits, and no sender is remembered.
func (r *Room) IsEmpty() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free == r.size && len(r.line)+len(r.senders) == 0
}

// FreeBytes returns how many bytes nobody has.
func (r *Room) FreeBytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free
}

// joinLine puts a request into the line.
func (r *Room) joinLine(sender string, bytes int64) *requestTurn {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.senders[sender]
	if !known {
		s = &usage{}
		r.senders[sender] = s
	}
	if s.here == 0 {
		s.used = max(s.used, r.initialUsage())
	}
	s.here++
	mine := &requestTurn{sender: s, bytes: bytes, came: make(chan struct{})}
	r.line = append(r.line, mine)
	r.grantTurns()
	return mine
}

// initialUsage is what a sender has used, as far as turns are concerned, that comes now: a little
// less than one whose turn has just come, and not much less, or it would have all turns for
// as long as others have been here.
func (r *Room) initialUsage() float64 { return r.begun - float64(r.share)*headStart.Seconds() }

// endTurn ends the turn of a request.
func (r *Room) endTurn(mine *requestTurn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine.sender.used += float64(mine.bytes) * r.clock.Since(mine.began).Seconds()
	mine.sender.held -= mine.bytes
	mine.sender.here--
	r.free += mine.bytes
	r.grantTurns()
}

// withdrawTurn takes a request out of the line, unless its turn has come.
func (r *Room) withdrawTurn(mine *requestTurn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	place := slices.Index(r.line, mine)
	if place < 0 {
		return false
	}
	r.line = slices.Delete(r.line, place, place+1)
	mine.sender.here--
	r.grantTurns()
	return true
}

// grantTurns gives those their turn for whom there is room. The caller has the lock.
func (r *Room) grantTurns() {
	for {
		first := r.nextTurnIndex()
		if first < 0 || r.line[first].bytes > r.free {
			break
		}
		due := r.line[first]
		r.line = slices.Delete(r.line, first, first+1)
		r.free -= due.bytes
		due.sender.held += due.bytes
		r.begun = max(r.begun, due.sender.used)
		due.began = r.clock.Now()
		close(due.came)
	}
	r.forgetSenders()
}

// forgetSenders forgets senders who are gone: those who have used no more than one who comes
// would begin with, and all of them if nobody is here or there are too many.
func (r *Room) forgetSenders() {
	idle := len(r.line) == 0
	for _, s := range r.senders {
		idle = idle && s.here == 0
	}
	all := idle || len(r.senders) > sendersMax
	maps.DeleteFunc(r.senders, func(_ string, s *usage) bool { return s.here == 0 && (all || s.used <= r.initialUsage()) })
	if idle {
		r.begun = 0
	}
}

// nextTurnIndex returns the place in the line of the request whose turn is next: of those whose
// senders have some of their share left, the one whose sender has used the least; of these
// the one who has the least now. It waits for its room even if there is enough for others,
// or else large requests would never have a turn. It returns -1 if there is none.
func (r *Room) nextTurnIndex() int {
	first := -1
	for place, waits := range r.line {
		if waits.sender.held+waits.bytes > r.share {
			continue
		}
		if first < 0 || cmp.Or(cmp.Compare(waits.sender.used, r.line[first].sender.used),
			cmp.Compare(waits.sender.held, r.line[first].sender.held)) < 0 {
			first = place
		}
	}
	return first
}
