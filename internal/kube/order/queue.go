// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package order lets controllers look at what is more important first, and at something of
// everybody.
package order

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Rank returns how important a key is; the greatest comes first. It is asked
// whenever the key is added to a queue.
type Rank[K comparable] func(K) int32

const (
	// later is what the priority of a key is lowered by that can wait, so that it
	// comes after all that cannot.
	later = 1 << 40
	// places are those among which the keys of a rank are spread that are there when a
	// controller starts.
	places = 8
)

// rankedQueue orders by rank. What is added with a priority below zero can wait: it is
// ordered by rank, too, after everything else.
//
// Of what is added before anything is taken out, as all is that there is when a
// controller starts, those of the same rank come in an order that is another each time,
// and before what comes later. If one of them ends the process, it does not do so each
// time before the same others have been looked at.
type rankedQueue[K comparable] struct {
	priorityqueue.PriorityQueue[K]
	rank Rank[K]
	// taken says that something was taken out.
	taken  *atomic.Bool
	shares *shares[K]
}

// NewQueue returns what makes the queue of a controller.
func NewQueue[K comparable](rank Rank[K], share Share[K]) func(string, workqueue.TypedRateLimiter[K]) workqueue.TypedRateLimitingInterface[K] {
	return func(name string, limiter workqueue.TypedRateLimiter[K]) workqueue.TypedRateLimitingInterface[K] {
		return newRankedQueue(name, limiter, rank, share)
	}
}

func newRankedQueue[K comparable](name string, limiter workqueue.TypedRateLimiter[K], rank Rank[K], share Share[K]) rankedQueue[K] {
	inner := priorityqueue.New(name, func(o *priorityqueue.Opts[K]) { o.RateLimiter = limiter })
	return rankedQueue[K]{PriorityQueue: inner, rank: rank, taken: &atomic.Bool{}, shares: newShares(share)}
}

// AddLater adds a key that can wait to the queue of a controller, after some time.
func AddLater[K comparable](q workqueue.TypedRateLimitingInterface[K], key K, after time.Duration) {
	if ordered, is := q.(priorityqueue.PriorityQueue[K]); is {
		low := handler.LowPriority
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &low, After: after}, key)
		return
	}
	q.AddAfter(key, after)
}

// Add is part of the queue.
func (q rankedQueue[K]) Add(key K) { q.AddWithOpts(priorityqueue.AddOpts{}, key) }

// AddAfter is part of the queue.
func (q rankedQueue[K]) AddAfter(key K, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, key)
}

// AddRateLimited is part of the queue.
func (q rankedQueue[K]) AddRateLimited(key K) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, key)
}

// AddWithOpts is part of the queue.
func (q rankedQueue[K]) AddWithOpts(o priorityqueue.AddOpts, keys ...K) {
	waits := o.Priority != nil && *o.Priority < 0
	for _, key := range keys {
		priority := int(q.rank(key)) * (places + 1)
		if !q.taken.Load() {
			priority += 1 + rand.IntN(places) //nolint:gosec // nobody gains anything by guessing it
		}
		if waits {
			priority -= later
		}
		o.Priority = &priority
		q.PriorityQueue.AddWithOpts(o, key)
	}
}

// Get is part of the queue.
func (q rankedQueue[K]) Get() (key K, shutdown bool) {
	key, _, shutdown = q.GetWithPriority()
	return key, shutdown
}

// GetWithPriority is part of the queue. The priority says whether the key could
// wait, for when it is added again.
func (q rankedQueue[K]) GetWithPriority() (key K, priority int, shutdown bool) {
	one, shutdown := q.takeAdmittedKey()
	q.taken.Store(true)
	if one.priority < -later/2 {
		return one.key, handler.LowPriority, shutdown
	}
	return one.key, 0, shutdown
}

// takeAdmittedKey takes a key out whose group has not its share of the workers.
func (q rankedQueue[K]) takeAdmittedKey() (one takenKey[K], shutdown bool) {
	for !q.ShuttingDown() {
		if one, waited := q.shares.nextWaitingKey(); waited {
			return one, false
		}
		if one.key, one.priority, shutdown = q.PriorityQueue.GetWithPriority(); shutdown || q.shares.admitKey(one) {
			return one, shutdown
		}
	}
	return takenKey[K]{}, true
}

// Done is part of the queue.
func (q rankedQueue[K]) Done(key K) {
	q.PriorityQueue.Done(key)
	q.shares.releaseKey(key)
}
