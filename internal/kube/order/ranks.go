// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package order

import "sync"

// Ranks remember how important keys are. The zero value ranks all alike. It is
// safe for concurrent use.
type Ranks[K comparable] struct {
	mu sync.RWMutex
	of map[K]int32 // without those of rank 0, as most are
}

// SetRank says how important a key is. Rank 0 is that of keys which nothing is said of.
func (r *Ranks[K]) SetRank(key K, rank int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rank == 0 {
		delete(r.of, key)
		return
	}
	if r.of == nil {
		r.of = map[K]int32{}
	}
	r.of[key] = rank
}

// RankOf returns how important a key is.
func (r *Ranks[K]) RankOf(key K) int32 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.of[key]
}
