// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
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
// hand; for what it has beyond that, clusters take turns at half of the workers.
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
	// add puts a request into the queue.
	add func(WorkRequest)

	// What follows is behind the mutex of the workers.
	inFlight int
	parked   sets.Set[WorkRequest]
	turns    []WorkRequest // the parked ones in the order in which they came
	waits    bool          // is in the list of those who wait
}

// SlotsFor returns those of a cluster. The function puts a request into the queue
// again when there may be a slot for it.
func (w *WorkerPool) SlotsFor(add func(WorkRequest)) *ClusterSlots {
	return &ClusterSlots{workers: w, add: add, parked: sets.New[WorkRequest]()}
}

// AcquireSlot takes a slot. If there is none, the request comes again when one is free.
func (s *ClusterSlots) AcquireSlot(request WorkRequest) bool {
	w := s.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case s.inFlight == 0:
	case s.inFlight < w.perCluster && w.spare > 0:
		w.spare--
	default:
		s.parkRequest(request)
		return false
	}
	s.inFlight++
	return true
}

// ReleaseSlot gives a slot back.
func (s *ClusterSlots) ReleaseSlot() {
	w := s.workers
	w.mu.Lock()
	defer w.mu.Unlock()
	s.inFlight--
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
		if next.waits = len(next.turns) > 0; next.waits {
			w.waiting = append(w.waiting, next)
		}
	}
}

// parkRequest keeps a request until it is woken.
func (s *ClusterSlots) parkRequest(request WorkRequest) {
	if s.parked.Has(request) {
		return
	}
	s.parked.Insert(request)
	s.turns = append(s.turns, request)
	if !s.waits {
		s.workers.waiting = append(s.workers.waiting, s)
		s.waits = true
	}
}

// wakeNext puts the next parked request into the queue, and reports whether there was one.
func (s *ClusterSlots) wakeNext() bool {
	if len(s.turns) == 0 {
		return false
	}
	next := s.turns[0]
	s.turns = s.turns[1:]
	s.parked.Delete(next)
	s.add(next)
	return true
}
