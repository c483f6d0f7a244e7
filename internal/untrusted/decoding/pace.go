// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decoding

import (
	"container/heap"
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"
)

const (
	// PieceMax is how many bytes a turn has at most.
	PieceMax = 16 << 10
	// pacedAtOnce is how many bytes are decoded of all senders together without turns.
	pacedAtOnce = 512 << 20
	// pacedPerProcessor is how many are decoded in a second after that, for each processor of the
	// program: about half of its time.
	pacedPerProcessor = 40 << 20
	// paceHeadStart is by how many bytes who comes is ahead of those who have had turns for longer.
	paceHeadStart = 1 << 20
)

// SharedPace spreads over time what a program decodes of all senders together. While that is more than
// it has time for, they take turns by bytes, the one next that will have had the fewest: who sends
// little is not kept waiting by those who send as much as they may, however many these are. It is safe for concurrent
// use.
type SharedPace struct {
	clock clock.Clock

	mu    sync.Mutex
	limit *rate.Limiter
	// waiting are the senders that have pieces in line, and wakes says that a timer goes on with them.
	waiting sendersByBytes
	wakes   bool
	// begun is how many bytes the sender had had whose turn came last. It and those bytes count
	// from when somebody had to wait, which was the congestion of this number.
	begun      int64
	congestion int
}

// NewSharedPace returns the pace of a program that has decoded nothing.
func NewSharedPace(clk clock.Clock) *SharedPace {
	perSecond := pacedPerProcessor * runtime.GOMAXPROCS(0)
	return &SharedPace{clock: clk, limit: rate.NewLimiter(rate.Limit(perSecond), pacedAtOnce)}
}

// PacedSender is one of those who share a pace. It is safe for concurrent use. A nil one never waits.
type PacedSender struct {
	pace *SharedPace
	// had are the bytes of its turns during a congestion.
	had        int64
	congestion int
	line       []*pacedPiece
	place      int // among those that wait
}

// afterNext is how many bytes a sender that waits will have had with its next piece.
func (s *PacedSender) afterNext() int64 { return s.had + int64(s.line[0].bytes) }

// pacedPiece is something that waits to be decoded.
type pacedPiece struct {
	bytes int
	came  chan struct{} // closed when it is its turn
}

// AddSender returns a further sender, which has had nothing.
func (p *SharedPace) AddSender() *PacedSender { return &PacedSender{pace: p} }

// AwaitTurn waits until so many bytes of the sender may be decoded, PieceMax at most. It fails only if ctx ends.
func (s *PacedSender) AwaitTurn(ctx context.Context, bytes int) error {
	if s == nil || bytes == 0 {
		return nil
	}
	piece := s.pace.joinLine(s, bytes)
	select {
	case <-piece.came:
		return nil
	case <-ctx.Done():
		if !s.pace.withdrawPiece(s, piece) {
			return nil // its turn has come
		}
		return fmt.Errorf("waiting for a turn to decode: %w", context.Cause(ctx))
	}
}

// joinLine puts a piece into the line, and gives those their turn who need not wait.
func (p *SharedPace) joinLine(s *PacedSender, bytes int) *pacedPiece {
	p.mu.Lock()
	defer p.mu.Unlock()
	piece := &pacedPiece{bytes: bytes, came: make(chan struct{})}
	s.line = append(s.line, piece)
	if len(s.line) == 1 {
		if s.congestion != p.congestion {
			s.congestion = p.congestion
			s.had = 0
		}
		s.had = max(s.had, p.begun-paceHeadStart)
		heap.Push(&p.waiting, s)
	}
	p.grantTurns()
	return piece
}

// withdrawPiece takes a piece out of the line, unless its turn has come.
func (p *SharedPace) withdrawPiece(s *PacedSender, piece *pacedPiece) (withdrawn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(s.line, piece)
	if i < 0 {
		return false
	}
	s.line = slices.Delete(s.line, i, i+1)
	p.settlePlace(s)
	return true
}

// settlePlace brings a sender whose line has changed to its place among those that wait. The caller has the lock.
func (p *SharedPace) settlePlace(s *PacedSender) {
	if len(s.line) == 0 {
		heap.Remove(&p.waiting, s.place)
		return
	}
	heap.Fix(&p.waiting, s.place)
}

// grantTurns gives turns until something is owed. The caller has the lock.
func (p *SharedPace) grantTurns() {
	now := p.clock.Now()
	for len(p.waiting) > 0 {
		if owed := -p.limit.TokensAt(now); owed > 0 {
			p.wakeIn(time.Duration(owed/float64(p.limit.Limit())*float64(time.Second)) + time.Millisecond)
			return
		}
		s := p.waiting[0]
		piece := s.line[0]
		s.line = s.line[1:]
		p.limit.ReserveN(now, piece.bytes)
		p.begun = max(p.begun, s.had)
		s.had += int64(piece.bytes)
		p.settlePlace(s)
		close(piece.came)
	}
	if p.limit.TokensAt(now) > 0 { // nobody waits, nor would: what was had counts no more
		p.congestion++
		p.begun = 0
	}
}

// wakeIn has turns go on after a while. The caller has the lock.
func (p *SharedPace) wakeIn(wait time.Duration) {
	if p.wakes {
		return
	}
	p.wakes = true
	timer := p.clock.NewTimer(wait)
	go func() {
		<-timer.C()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wakes = false
		p.grantTurns()
	}()
}

// sendersByBytes is a heap of senders, the one first that will have had the fewest bytes with its next piece.
type sendersByBytes []*PacedSender

// Len implements heap.Interface.
func (h sendersByBytes) Len() int { return len(h) }

// Less implements heap.Interface.
func (h sendersByBytes) Less(i, j int) bool { return h[i].afterNext() < h[j].afterNext() }

// Swap implements heap.Interface.
func (h sendersByBytes) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place = i
	h[j].place = j
}

// Push implements heap.Interface.
func (h *sendersByBytes) Push(sender any) {
	s := sender.(*PacedSender) //nolint:forcetypeassert // nothing else is pushed
	s.place = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *sendersByBytes) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return s
}
