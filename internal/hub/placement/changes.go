// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-io/capstan/internal/cluster/view"
)

const (
	// sightingsMax is how many states of a cluster are remembered until it is its turn.
	sightingsMax = 16
	// changesMax is about how many clusters a namespace is asked about in turn. With more, all of
	// its Placements look at the fleet, as most would then. Of many namespaces each is asked about
	// changesSum divided by their number, changesMin at least: each notes its own changes, and a whole
	// fleet may change at once.
	changesMax, changesMin = 1000, 16
	changesSum             = 200 * changesMax
	// turnTime is for about how long the Placements of a namespace are asked in one turn.
	turnTime = 10 * time.Millisecond
)

// tenant is a namespace with what its Placements ask for, and the changes of clusters of which it
// has not found out yet which of them can care. A cluster that changes again before its turn has
// one change: whatever a member does, the others have their turn in between.
type tenant struct {
	requests map[types.NamespacedName]*trackedPlacement // which do not change
	readers  map[types.NamespacedName]*trackedPlacement // those of them with expressions
	waiting  map[string]*clusterChange
	turns    []string // clusters that wait, the first comes next
	// lost says that so many changed that they were forgotten.
	lost bool
	// waits says that it is in the line, or that it is its turn.
	waits bool
	// asked is the change of which some Placements have not been asked yet.
	asked *clusterChange
}

func newTenant() *tenant {
	return &tenant{requests: map[types.NamespacedName]*trackedPlacement{}, readers: map[types.NamespacedName]*trackedPlacement{}, waiting: map[string]*clusterChange{}}
}

// clusterChange is what has become of a cluster, as the Placements of a namespace are asked about it.
type clusterChange struct {
	name string
	// sightings are the states before, the oldest first.
	sightings []clusterSighting
	after     *view.Cluster // nil for none
	// loud says that it is more than a sign of life.
	loud bool
	// forgotten is the number of the last snapshot of which the state is not known; 0 if
	// all are.
	forgotten uint64
	// lost says that nothing is known of any cluster.
	lost bool

	namespace string
	asked     map[types.NamespacedName]*trackedPlacement
}

// clusterSighting is the state of a cluster in snapshots, up to the one with a number.
type clusterSighting struct {
	cluster *view.Cluster // nil for none
	until   uint64
}

// recordChange notes for all who may care that a cluster is not any more what it was in the last snapshot.
func (m *fleetModel) recordChange(name string, before *view.Cluster, loud bool) {
	most := min(changesMax, max(changesMin, changesSum/max(1, len(m.tenants))))
	for namespace, of := range m.tenants {
		if loud || len(of.readers) > 0 {
			of.recordChange(name, clusterSighting{before, m.snapshots}, loud, most)
			if !of.waits {
				of.waits = true
				m.turns.Come(namespace)
			}
		}
	}
	select {
	case m.news <- struct{}{}:
	default: // there are some already
	}
}

// recordChange notes a change of one of so many clusters at most.
func (t *tenant) recordChange(name string, before clusterSighting, loud bool, most int) {
	if t.lost {
		return
	}
	noted := t.waiting[name]
	if noted == nil {
		if len(t.turns) >= most {
			t.lost = true
			clear(t.waiting)
			t.turns = nil
			return
		}
		noted = &clusterChange{name: name}
		t.waiting[name] = noted
		t.turns = append(t.turns, name)
	}
	noted.loud = noted.loud || loud
	if n := len(noted.sightings); n == 0 || noted.sightings[n-1].until < before.until { // or else nobody has seen it
		noted.sightings = append(noted.sightings, before)
	}
	if len(noted.sightings) > sightingsMax {
		noted.forgotten = noted.sightings[0].until
		noted.sightings = slices.Delete(noted.sightings, 0, 1)
	}
}

// nextChange takes the change whose turn it is, with the Placements to ask. Who takes it calls
// asked. It is false if there is none.
func (m *fleetModel) nextChange() (next clusterChange, there bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		namespace, waits := m.turns.Begin()
		if !waits {
			return clusterChange{}, false
		}
		if next, there := m.tenants[namespace].next(); there {
			next.namespace = namespace
			next.after = nil
			if cluster, known := m.clusters[next.name]; known {
				next.after = &cluster
			}
			return next, true
		}
		m.turns.End(0, false)
		m.leave(namespace)
	}
}

// leave takes a namespace that has nothing left to ask about out of the line.
func (m *fleetModel) leave(namespace string) {
	of := m.tenants[namespace]
	of.waits = false
	if len(of.requests) == 0 {
		delete(m.tenants, namespace)
	}
}

func (t *tenant) next() (clusterChange, bool) {
	switch {
	case t.asked != nil:
		next := *t.asked
		t.asked = nil
		return next, true
	case t.lost:
		t.lost = false
		return clusterChange{lost: true, asked: maps.Clone(t.requests)}, true
	case len(t.turns) == 0:
		return clusterChange{}, false
	}
	next := t.waiting[t.turns[0]]
	t.turns = t.turns[1:]
	delete(t.waiting, next.name)
	asked := t.readers
	if next.loud {
		asked = t.requests
	}
	next.asked = maps.Clone(asked)
	return *next, true
}

// asked notes how long the Placements of a change were asked, of which some may be left.
func (m *fleetModel) asked(c clusterChange, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.tenants[c.namespace]
	if len(c.asked) > 0 {
		of.asked = &c
	}
	more := of.asked != nil || of.lost || len(of.turns) > 0
	m.turns.End(took, more)
	if !more {
		m.leave(c.namespace)
	}
}

// ask asks one of the Placements whether it can care, and takes it off those to ask. It runs
// expressions of users, and the model is not locked then: a Placement that is tracked in
// between looks at the fleet later, and sees the change.
func (c *clusterChange) ask(now time.Time) (key types.NamespacedName, cares bool) {
	for key, t := range c.asked {
		delete(c.asked, key)
		return key, c.affectsPlacement(t, now)
	}
	return types.NamespacedName{}, false
}

// affectsPlacement compares with the state that a Placement has seen.
func (c clusterChange) affectsPlacement(t *trackedPlacement, now time.Time) bool {
	if c.lost || t.deciding && len(c.sightings) > 1 || c.forgotten > 0 && t.seen <= c.forgotten {
		return true // which one it has seen is not known
	}
	at := slices.IndexFunc(c.sightings, func(s clusterSighting) bool { return t.seen <= s.until })
	return at >= 0 && t.affectedByChange(c.sightings[at].cluster, c.after, c.name, now) // or else it has seen how it is now
}

// enqueueAffected is a source of the controller. It takes one change after another, so
// that the events of all clusters need not wait until all Placements were asked.
func (c *SchedulingController) enqueueAffected(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for ctx.Err() == nil {
			if c.enqueueOfOneTurn(q) {
				continue
			}
			select {
			case <-ctx.Done():
			case <-c.model.news:
			}
		}
	}()
	return nil
}

// enqueueOfOneTurn asks Placements of one namespace about a change, for as long as its turn is,
// and enqueues each that can care at once. It is false if there is none to ask.
func (c *SchedulingController) enqueueOfOneTurn(q workqueue.TypedRateLimitingInterface[reconcile.Request]) bool {
	next, there := c.model.nextChange()
	if !there {
		return false
	}
	began := c.clock.Now()
	for now := began; len(next.asked) > 0 && now.Sub(began) < turnTime; now = c.clock.Now() {
		if key, cares := next.ask(now); cares {
			q.Add(reconcile.Request{NamespacedName: key})
		}
	}
	c.model.asked(next, c.clock.Since(began))
	return true
}
