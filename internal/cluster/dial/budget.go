// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

const (
	// decodedBurst is how many bytes of one member are decoded without a wait: as many as all
	// its pods may have, of which clients keep little, when they are listed.
	decodedBurst = 2 << 30
	// decodedRate is how many are decoded in a second after that: some hundredths of a
	// processor's time, and more than a busy cluster of thousands of nodes tells.
	decodedRate = 4 << 20
	// bytesPerEvent is what an event of a watch counts at least, requestBytes a request for a list or a watch, and
	// dialBytes a connection: small ones take as long as so many bytes.
	bytesPerEvent = 1 << 10
	requestBytes  = 16 << 10
	dialBytes     = 256 << 10
)

// budget counts what clients may hold of one member: the answers that they are
// reading, and what they were told of the collections that they follow, of each
// and of all together. It is safe for concurrent use.
type budget struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// buffered and events are the sums over all open answers.
	buffered, events int64
	shares           map[string]*collectionShare
	// held is the sum over all shares.
	held toldTotals
}

// collectionShare is what clients hold of a collection.
type collectionShare struct {
	// told is what they were told since they last began to list.
	told toldTotals
	// before is what they were told until then. They hold it until they have all of
	// the new list, which a member may never let them have.
	before toldTotals
	// answers is how many of it are open, and closed when the last one was closed.
	answers int
	closed  time.Time
}

// heldTotals returns what counts of the share. While a list replaces another it is the
// bigger one: those of a healthy cluster are alike, and must not count twice.
func (s *collectionShare) heldTotals() toldTotals { return s.told.atLeast(s.before) }

// followCollection says that a client asks for a collection, which counts from now on, and
// for a while after the function that it returns is called at the end of the answer.
func (b *budget) followCollection(collection string) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetUnfollowed()
	s := b.shareOf(collection)
	s.answers++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		s.answers--
		s.closed = b.clock.Now()
	})
}

// forgetUnfollowed drops the shares of collections that nobody follows any more.
func (b *budget) forgetUnfollowed() {
	for collection, s := range b.shares {
		if s.answers == 0 && b.clock.Since(s.closed) >= followedFor {
			b.held = b.held.minus(s.heldTotals())
			delete(b.shares, collection)
		}
	}
}

func (b *budget) shareOf(collection string) *collectionShare {
	s, ok := b.shares[collection]
	if !ok {
		s = &collectionShare{}
		if b.shares == nil {
			b.shares = map[string]*collectionShare{}
		}
		b.shares[collection] = s
	}
	return s
}

// changeShare sets what was told of a share.
func (b *budget) changeShare(s *collectionShare, now, before toldTotals) {
	b.held = b.held.minus(s.heldTotals())
	s.told = now
	s.before = before
	b.held = b.held.plus(s.heldTotals())
}

// beginList says that a client begins to list a collection.
func (b *budget) beginList(collection string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shareOf(collection)
	b.changeShare(s, toldTotals{}, s.heldTotals())
}

// completeList says that a client has all of the list that it began last, and so holds
// nothing of those before.
func (b *budget) completeList(collection string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shareOf(collection)
	b.changeShare(s, s.told, toldTotals{})
}

// addListed adds what was listed of a collection. It returns what may be listed if that
// is more.
func (b *budget) addListed(collection string, more amount) (exceeded string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shareOf(collection)
	now := s.told
	now.listed = now.listed.plus(more)
	b.changeShare(s, now, s.before)
	switch {
	case now.listed.objects > eventsMax || now.listed.bytes > listBytesMax:
		exceeded = fmt.Sprintf("what a list may have, %d bytes and %d objects", int64(listBytesMax), eventsMax)
	// One that replaces another as big as it is takes nothing from the others.
	case b.held.listed.objects > allObjectsMax && now.listed.objects > s.before.listed.objects,
		b.held.listed.bytes > allBytesMax && now.listed.bytes > s.before.listed.bytes:
		exceeded = fmt.Sprintf("what all lists of one cluster may have in total, %d bytes and %d objects", int64(allBytesMax), allObjectsMax)
	}
	return exceeded
}

// dropListed says that a client holds nothing of the list that it began last.
func (b *budget) dropListed(collection string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shareOf(collection)
	now := s.told
	now.listed = amount{}
	b.changeShare(s, now, s.before)
}

// addWatched adds what a watch told of a collection that was listed before, and tells
// whether there is room for more.
func (b *budget) addWatched(collection string, more amount) (room bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shareOf(collection)
	now := s.told
	now.since = now.since.plus(more)
	b.changeShare(s, now, s.before)
	return !b.mustList(s)
}

// needsList reports whether watches told so much of a collection that it has to be listed
// before more is taken.
func (b *budget) needsList(collection string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mustList(b.shareOf(collection))
}

// mustList reports whether a collection had its share of events, or all of them
// together had more than theirs and it is worth to list this one: it has at least
// an equal part of what may come, and listing costs no more than its events did.
// So all together cannot have more than twice that and the lists.
func (b *budget) mustList(s *collectionShare) bool {
	since := s.told.since
	listed := s.told.listed
	n := len(b.shares)
	switch {
	case since.objects >= eventsMax, since.bytes > listBytesMax:
		return true
	case b.held.since.objects > allObjectsMax:
		return since.objects >= max(listed.objects, allObjectsMax/n)
	case b.held.since.bytes > allBytesMax:
		return since.bytes >= max(listed.bytes, allBytesMax/int64(n))
	}
	return false
}

// answerShare is what clients hold of an open answer. The budget guards it.
type answerShare struct {
	buffered, events int64
	closed           bool
}

// addBuffered adds what is being read of an answer, and reports whether there is room for it.
func (b *budget) addBuffered(s *answerShare, bytes int64) (room bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !s.closed {
		s.buffered += bytes
		b.buffered += bytes
	}
	return b.buffered <= bufferedBytesMax
}

// addEvents adds what a client holds of the events of a watch, and returns what clients hold of those of all.
func (b *budget) addEvents(s *answerShare, bytes int64) (all int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !s.closed {
		s.events += bytes
		b.events += bytes
	}
	return b.events
}

// closeAnswer says that a client holds nothing of an answer any more. It may still be reading it.
func (b *budget) closeAnswer(s *answerShare) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buffered -= s.buffered
	b.events -= s.events
	*s = answerShare{closed: true}
}

// amount is how much a member told. Elements and quantities count as bytes; see bytesPerElement.
type amount struct {
	objects int
	bytes   int64
}

func (a amount) plus(b amount) amount { return amount{a.objects + b.objects, a.bytes + b.bytes} }

func (a amount) minus(b amount) amount { return amount{a.objects - b.objects, a.bytes - b.bytes} }

func (a amount) atLeast(b amount) amount {
	return amount{max(a.objects, b.objects), max(a.bytes, b.bytes)}
}

// toldTotals is what was told of a collection, or of several: what was listed, and what
// came since in watches that go on from there.
type toldTotals struct{ listed, since amount }

func (t toldTotals) plus(u toldTotals) toldTotals {
	return toldTotals{t.listed.plus(u.listed), t.since.plus(u.since)}
}

func (t toldTotals) minus(u toldTotals) toldTotals {
	return toldTotals{t.listed.minus(u.listed), t.since.minus(u.since)}
}

// atLeast returns the bigger of each amount.
func (t toldTotals) atLeast(u toldTotals) toldTotals {
	return toldTotals{t.listed.atLeast(u.listed), t.since.atLeast(u.since)}
}

// decodeMeter spreads over time what is decoded of one member, which may answer every request with as
// much as is taken. What was read is paid for by the time that passes then: nothing is cut off,
// and requests wait while there is a debt. It is safe for concurrent use.
type decodeMeter struct {
	clock clock.Clock
	limit *rate.Limiter
	// sender shares with other members what is decoded of all of them; nil if there are none.
	sender *decoding.PacedSender
	// delayed is told of a request that waits, or whose answer does.
	delayed func(*LimitError)
}

func newMeter(clk clock.Clock) *decodeMeter {
	return &decodeMeter{clock: clk, limit: rate.NewLimiter(decodedRate, decodedBurst), delayed: func(*LimitError) {}}
}

// spendBytes counts bytes that were read, and waits until others have had their turn. It fails only if
// the request of the context ends before.
func (m *decodeMeter) spendBytes(ctx context.Context, bytes int) error {
	m.limit.ReserveN(m.clock.Now(), bytes)
	for ; bytes > 0; bytes -= decoding.PieceMax {
		if err := m.sender.AwaitTurn(ctx, min(bytes, decoding.PieceMax)); err != nil {
			return err
		}
	}
	return nil
}

// admitRequest returns when a request may be sent, which it pays for if it is one of those that clients send again as soon as a
// member ends them.
func (m *decodeMeter) admitRequest(request *http.Request, kind requestKind) error {
	if err := m.awaitCredit(request); err != nil || kind != kindList && kind != kindWatch {
		return err
	}
	if err := m.spendBytes(request.Context(), requestBytes); err != nil {
		return timeLimitError(request.Context(), err)
	}
	return nil
}

// awaitCredit returns when nothing is owed, or with an error when the request ends.
func (m *decodeMeter) awaitCredit(request *http.Request) error {
	ctx := request.Context()
	for told := false; ; told = true {
		owed := -m.limit.TokensAt(m.clock.Now())
		if owed <= 0 {
			return nil
		}
		if !told {
			m.delayed(&LimitError{
				Request: request.Method + " " + request.URL.Path, Delayed: true,
				Limit: fmt.Sprintf("the %d MiB that are decoded of one cluster in a second, after %d MiB at once", decodedRate>>20, decodedBurst>>20),
			})
		}
		timer := m.clock.NewTimer(time.Duration(owed/decodedRate*float64(time.Second)) + time.Millisecond)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return timeLimitError(ctx, context.Cause(ctx))
		}
	}
}
