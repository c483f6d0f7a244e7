// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package written tells which of two versions of an object was written later, and
// remembers what was written for as long as a cache may not show it.
package written

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
)

// BehindMax is for how long a cache may be behind what was written. Nobody waits longer
// for it to show a write: somebody else may have undone it before the cache has seen it.
const BehindMax = 30 * time.Second

// IsAfter reports whether the API server has written a version after another one of the
// same resource. If they cannot be compared, it is false.
func IsAfter(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order > 0
}

// IsSince reports whether a version is another one of the same resource, or was written
// after it. If they cannot be compared, it is false.
func IsSince(version, other string) bool {
	order, err := resourceversion.CompareResourceVersion(version, other)
	return err == nil && order >= 0
}

// RecentWrites are writes that were recorded within a limit of time, each with what is
// known of it. It is not safe for concurrent use.
type RecentWrites[K comparable, V any] struct {
	clock  clock.PassiveClock
	limit  time.Duration
	writes map[K]recentWrite[V]
	swept  time.Time // when those were dropped last that are too old
}

type recentWrite[V any] struct {
	value V
	at    time.Time
}

// NewRecentWrites returns RecentWrites without any.
func NewRecentWrites[K comparable, V any](clk clock.PassiveClock, limit time.Duration) *RecentWrites[K, V] {
	return &RecentWrites[K, V]{clock: clk, limit: limit, writes: map[K]recentWrite[V]{}}
}

// RecordWrite notes a write as of now, in the place of an earlier one of the key.
func (r *RecentWrites[K, V]) RecordWrite(key K, value V) {
	now := r.clock.Now()
	r.dropExpired(now)
	r.writes[key] = recentWrite[V]{value, now}
}

// FindWrite returns what is known of the write of a key.
func (r *RecentWrites[K, V]) FindWrite(key K) (value V, found bool) {
	now := r.clock.Now()
	r.dropExpired(now)
	write, found := r.writes[key]
	if !found || r.isExpired(write, now) {
		return value, false
	}
	return write.value, true
}

// HasWriteOf reports whether there is a write of a key that matches.
func (r *RecentWrites[K, V]) HasWriteOf(matches func(K) bool) bool {
	now := r.clock.Now()
	for key, write := range r.writes {
		if matches(key) && !r.isExpired(write, now) {
			return true
		}
	}
	return false
}

// ForgetWrite drops the write of a key, if there is one.
func (r *RecentWrites[K, V]) ForgetWrite(key K) { delete(r.writes, key) }

func (r *RecentWrites[K, V]) isExpired(write recentWrite[V], now time.Time) bool {
	return now.Sub(write.at) >= r.limit
}

// dropExpired drops what is too old. It looks at all writes once within the limit only.
func (r *RecentWrites[K, V]) dropExpired(now time.Time) {
	if now.Sub(r.swept) < r.limit {
		return
	}
	maps.DeleteFunc(r.writes, func(_ K, write recentWrite[V]) bool { return r.isExpired(write, now) })
	r.swept = now
}
