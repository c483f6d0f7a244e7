// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// WorkRequest names something to look at: a ManifestWork of a cluster, or an
// AppliedManifestWork for which there is none.
type WorkRequest struct {
	Cluster fleet.ClusterName
	Work    string
	Applied string
}

// WorkerPool are shared by all clusters. Each cluster may always have one work in
// hand; for what it has beyond that, clusters take turns at half of the workers, and in each the owners of works: next
// is who has the fewest in hand.
// So as long as no more clusters than the other half are slow at a time, there is
// a worker for one that is not. If there are more, it waits until a request of a
// slow one is answered or takes too long. Workers are safe for concurrent use.
type WorkerPool struct {
	perCluster int

	mu sync.Mutex
	// spare is how many further works clusters may take in hand at the moment.
	spare int
	// waiting are the clusters that have parked requests, in turn.
	waiting []*ClusterSlots
}

// NewWorkerPool shares so many workers, of which a cluster has so many at most.
func NewWorkerPool(all, perCluster int) *WorkerPool {
	return &WorkerPool{perCluster: perCluster, spare: max(all/2, perCluster-1)}
}

// ClusterSlots are the workers of one cluster. They are safe for concurrent use.
type ClusterSlots struct {
	workers *WorkerPool
	// add puts a request into the queue, and ownerOf says whose work it is about.
	add     func(WorkRequest)
	ownerOf func(WorkRequest) string

	// What follows is behind the mutex of the workers.
	inFlight int
	parked   sets.Set[WorkRequest]
	// owners have a work in hand or a parked request, and line is of those who have the latter.
	owners map[string]*ownerTurns
	line   []*ownerTurns
	waits  bool // is in the list of those who wait
}

// ownerTurns are those of one owner in a cluster.
type ownerTurns struct {
	inFlight int
	turns    []WorkRequest // the parked requests in the order in which they came
}

// SlotsFor returns those of a cluster. Add puts a request into the queue again when there may be a slot for it, and ownerOf
// says whose works take turns with those of others.
func (w *WorkerPool) SlotsFor(add func(WorkRequest), ownerOf func(WorkRequest) string) *ClusterSlots {
	return &ClusterSlots{workers: w, add: add, ownerOf: ownerOf, parked: sets.New[WorkRequest](), owners: map[string]*ownerTurns{}}
}

// AcquireSlot takes a slot, and returns how to give it back. If there is none, it returns nil, and the request comes
// again when one is free.
func (s *ClusterSlots) AcquireSlot(request WorkRequest) (release func()) {
	owner := s.ownerOf(request)
	w := s.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case s.inFlight == 0:
	case s.inFlight < w.perCluster && w.spare > 0:
		w.spare--
	default:
		s.parkRequest(request, owner)
		return nil
	}
	s.inFlight++
	s.turnsOf(owner).inFlight++
	return func() { s.releaseSlot(owner) }
}

// releaseSlot gives a slot of an owner back.
func (s *ClusterSlots) releaseSlot(owner string) {
	w := s.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	s.inFlight--
	s.owners[owner].inFlight--
	s.forgetOwner(owner)
	if s.inFlight == 0 {
		s.wakeNext()
	} else {
		w.spare++
	}
	w.wakeClusters()
}

// wakeClusters lets clusters that wait have what is spare, one request each. One may come
// late or find that another was faster, and waits again; whoever leaves next wakes
// as many as there is room for then, so none is forgotten.
func (w *WorkerPool) wakeClusters() {
	room := w.spare
	for range len(w.waiting) {
		if room == 0 {
			return
		}
		next := w.waiting[0]
		w.waiting = w.waiting[1:]
		if next.inFlight < w.perCluster && next.wakeNext() {
			room--
		}
		if next.waits = len(next.line) > 0; next.waits {
			w.waiting = append(w.waiting, next)
		}
	}
}

// parkRequest keeps a request until it is woken.
func (s *ClusterSlots) parkRequest(request WorkRequest, owner string) {
	if s.parked.Has(request) {
		return
	}
	s.parked.Insert(request)
	of := s.turnsOf(owner)
	if len(of.turns) == 0 {
		s.line = append(s.line, of)
	}
	of.turns = append(of.turns, request)
	if !s.waits {
		s.workers.waiting = append(s.workers.waiting, s)
		s.waits = true
	}
}

// wakeNext puts the next parked request into the queue, and reports whether there was one.
func (s *ClusterSlots) wakeNext() bool {
	if len(s.line) == 0 {
		return false
	}
	of := slices.MinFunc(s.line, func(a, b *ownerTurns) int { return cmp.Compare(a.inFlight, b.inFlight) })
	s.line = slices.DeleteFunc(s.line, func(other *ownerTurns) bool { return other == of })
	next := of.turns[0]
	if of.turns = of.turns[1:]; len(of.turns) > 0 {
		s.line = append(s.line, of)
	}
	s.parked.Delete(next)
	s.add(next)
	return true
}

// turnsOf returns the turns of an owner.
func (s *ClusterSlots) turnsOf(owner string) *ownerTurns {
	of, known := s.owners[owner]
	if !known {
		of = &ownerTurns{}
		s.owners[owner] = of
	}
	return of
}

// forgetOwner forgets an owner who has nothing in hand and nothing parked.
func (s *ClusterSlots) forgetOwner(owner string) {
	if of := s.owners[owner]; of.inFlight == 0 && len(of.turns) == 0 {
		delete(s.owners, owner)
	}
}
