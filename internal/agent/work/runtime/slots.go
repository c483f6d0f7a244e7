// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"slices"
	"sync"

	"github.com/capstan-io/capstan/internal/fleet"
)

// Request names something to look at: a ManifestWork of a cluster, or an
// AppliedManifestWork for which there is none.
type Request struct {
	Cluster fleet.ClusterName
	Work    string
	Applied string
}

// Slots bound how many works of one cluster are in hand at a time, so that a
// slow one does not take all workers. They are safe for concurrent use.
type Slots struct {
	max int
	// add puts a request into the queue.
	add func(Request)

	mu       sync.Mutex
	inFlight int
	parked   []Request // wait for one in flight to end
}

// NewSlots returns so many slots. The function puts a request into the queue
// again when there is one for it.
func NewSlots(most int, add func(Request)) *Slots { return &Slots{max: most, add: add} }

// Enter takes a slot. If there is none, the request comes again when one is free.
func (s *Slots) Enter(request Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight < s.max {
		s.inFlight++
		return true
	}
	if !slices.Contains(s.parked, request) {
		s.parked = append(s.parked, request)
	}
	return false
}

// Leave gives a slot back.
func (s *Slots) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if len(s.parked) > 0 {
		s.add(s.parked[0])
		s.parked = s.parked[1:]
	}
}
