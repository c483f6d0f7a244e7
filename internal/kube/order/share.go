// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"sync"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Share is how many workers of a controller the keys of one group, such as those of a
// namespace, have at most: one group whose keys take long leaves some to the others. The
// zero value is no bound.
type Share[K comparable] struct {
	Of   func(K) string
	Most int
}

// SharedOptions are the options of a controller with so many workers, a quarter of which is left
// to others by the keys of any one namespace. No key is more important than another.
func SharedOptions[K comparable](workers int, namespace func(K) string) controller.TypedOptions[K] {
	newQueue := func(name string, limiter workqueue.TypedRateLimiter[K]) workqueue.TypedRateLimitingInterface[K] {
		return NewSharedQueue(name, limiter, workers, namespace)
	}
	return controller.TypedOptions[K]{MaxConcurrentReconciles: workers, NewQueue: newQueue}
}

// NewSharedQueue is the queue of a controller with the options of SharedOptions, for one that adds
// something of its own to it.
func NewSharedQueue[K comparable](
	name string, limiter workqueue.TypedRateLimiter[K], workers int, namespace func(K) string,
) priorityqueue.PriorityQueue[K] {
	ranks := &Ranks[K]{}
	return newRankedQueue(name, limiter, ranks.RankOf, Share[K]{Of: namespace, Most: workers - workers/4})
}

// takenKey is a key that was taken out of a queue.
type takenKey[K comparable] struct {
	key      K
	priority int
}

// shares hand out keys so that no group has more than its share. They are safe for
// concurrent use.
type shares[K comparable] struct {
	Share[K]

	mu   sync.Mutex
	busy map[string]int
	// parked were taken out when their group had its share, and next are those of them
	// that have one now. Whoever has made room for one looks for a key next, and finds it.
	parked map[string][]takenKey[K]
	next   []takenKey[K]
}

func newShares[K comparable](share Share[K]) *shares[K] {
	return &shares[K]{Share: share, busy: map[string]int{}, parked: map[string][]takenKey[K]{}}
}

// admitKey reports whether a key may be handed out. One that may not waits until it may.
func (s *shares[K]) admitKey(one takenKey[K]) bool {
	if s.Most == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.Of(one.key)
	if s.busy[group] >= s.Most {
		s.parked[group] = append(s.parked[group], one)
		return false
	}
	s.busy[group]++
	return true
}

// nextWaitingKey returns a key that has waited and may be handed out now, if there is one.
func (s *shares[K]) nextWaitingKey() (one takenKey[K], is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next) == 0 {
		return one, false
	}
	one = s.next[0]
	s.next = s.next[1:]
	return one, true
}

// releaseKey takes back a key. Its share goes to the one of its group that waits for longest.
func (s *shares[K]) releaseKey(key K) {
	if s.Most == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	group := s.Of(key)
	if waits := s.parked[group]; len(waits) > 0 {
		s.next = append(s.next, waits[0])
		if s.parked[group] = waits[1:]; len(waits) == 1 {
			delete(s.parked, group)
		}
		return
	}
	if s.busy[group]--; s.busy[group] == 0 {
		delete(s.busy, group)
	}
}
