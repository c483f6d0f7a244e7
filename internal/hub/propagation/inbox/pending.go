// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inbox

import (
	"context"
	"sync"
	"time"

	"github.com/capstan-io/capstan/internal/kube/order"
)

// pendingWork is what waits until it is worked out aside. Namespaces have their turns, and equal
// parts of the time.
type pendingWork[T any] struct {
	now func() time.Time

	mu sync.Mutex
	// waiting is what waits of a namespace, the oldest first, and turns has the namespaces
	// of which something does, but for the one whose turn it is.
	waiting map[string][]T
	turns   order.Turns
	news    chan struct{} // has an element if there may be some
}

func newPendingWork[T any]() pendingWork[T] {
	return pendingWork[T]{now: time.Now, waiting: map[string][]T{}, news: make(chan struct{}, 1)}
}

// putWaiting has something wait. The caller has the lock.
func (p *pendingWork[T]) putWaiting(namespace string, one T) {
	if len(p.waiting[namespace]) == 0 {
		p.turns.Come(namespace)
	}
	p.waiting[namespace] = append(p.waiting[namespace], one)
	select {
	case p.news <- struct{}{}:
	default: // there are some already
	}
}

// takeNext takes out what has waited for longest of the namespace whose turn begins. It is false
// if nothing waits. The caller has the lock.
func (p *pendingWork[T]) takeNext() (one T, is bool) {
	namespace, is := p.turns.Begin()
	if !is {
		return one, false
	}
	all := p.waiting[namespace]
	if p.waiting[namespace] = all[1:]; len(all) == 1 {
		delete(p.waiting, namespace)
	}
	return all[0], true
}

// endTurn ends the turn of a namespace that has begun at a time.
func (p *pendingWork[T]) endTurn(namespace string, begun time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turns.End(p.now().Sub(begun), len(p.waiting[namespace]) > 0)
}

// followNews calls follow as long as something waits, until the context ends.
func (p *pendingWork[T]) followNews(ctx context.Context, follow func() bool) {
	go FollowNews(ctx, p.news, follow)
}

// FollowNews calls follow until the context ends: again at once if that reports that there was
// something to follow, and when there is news otherwise.
func FollowNews(ctx context.Context, news <-chan struct{}, follow func() bool) {
	for ctx.Err() == nil {
		if follow() {
			continue
		}
		select {
		case <-ctx.Done():
		case <-news:
		}
	}
}
