// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"hash/maphash"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// rememberMin is for how long it is remembered at least what was said, and
	// subjectsMax of how many subjects, if that many are spoken of in that time.
	rememberMin = 10 * time.Minute
	subjectsMax = 20_000
)

// memory has what was said last of each subject. It keeps two generations: what
// was not spoken of for a generation is forgotten.
type memory struct {
	clock clock.PassiveClock
	seed  maphash.Seed

	mu          sync.Mutex
	now, before map[uint64]uint64
	since       time.Time
}

func newMemory(clk clock.PassiveClock) *memory {
	return &memory{clock: clk, seed: maphash.MakeSeed(), now: map[uint64]uint64{}, since: clk.Now()}
}

// recordIfNew reports whether an event says something else of its subject than the last
// one did, and remembers it.
func (m *memory) recordIfNew(event Event) bool {
	about := event.About
	subject := m.hash(string(about.UID), about.Kind, about.Namespace, about.Name, event.Part, topic(event.Reason))
	said := m.hash(event.Reason, event.Note)
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.clock.Now(); now.Sub(m.since) >= rememberMin || len(m.now) >= subjectsMax {
		m.now, m.before, m.since = map[uint64]uint64{}, m.now, now
	}
	last, known := m.now[subject]
	if !known {
		last, known = m.before[subject]
	}
	m.now[subject] = said
	return !known || last != said
}

func (m *memory) hash(parts ...string) uint64 {
	var hash maphash.Hash
	hash.SetSeed(m.seed)
	for _, part := range parts {
		_, _ = hash.WriteString(part) // never fails
		_ = hash.WriteByte(0)
	}
	return hash.Sum64()
}
