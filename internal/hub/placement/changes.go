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

// sightingsMax is how many states of a cluster are remembered until it is its turn.
const sightingsMax = 16

// changes are those of clusters of which nobody has found out yet which Placements can
// care. A cluster that changes again before its turn has one change: whatever a member
// does, the others have their turn in between.
type changes struct {
	waiting map[string]*change
	turns   []string      // clusters that wait, the first comes next
	news    chan struct{} // has an element if there may be some
}

// change is what has become of a cluster.
type change struct {
	name string
	// sightings are the states before, the oldest first.
	sightings []sighting
	after     *view.Cluster // nil for none
	// loud says that it is more than a sign of life.
	loud bool
	// forgotten is the number of the last snapshot of which the state is not known; 0 if
	// all are.
	forgotten uint64
	asked     map[types.NamespacedName]*tracked
}

// sighting is the state of a cluster in snapshots, up to the one with a number.
type sighting struct {
	cluster *view.Cluster // nil for none
	until   uint64
}

func newChanges() changes {
	return changes{waiting: map[string]*change{}, news: make(chan struct{}, 1)}
}

// note notes that a cluster is not any more what it was in the last snapshot, whose
// number is given.
func (c *changes) note(name string, before *view.Cluster, last uint64, loud bool) {
	noted := c.waiting[name]
	if noted == nil {
		noted = &change{name: name}
		c.waiting[name] = noted
		c.turns = append(c.turns, name)
	}
	noted.loud = noted.loud || loud
	if n := len(noted.sightings); n == 0 || noted.sightings[n-1].until < last { // or else nobody has seen it
		noted.sightings = append(noted.sightings, sighting{before, last})
	}
	if len(noted.sightings) > sightingsMax {
		noted.forgotten = noted.sightings[0].until
		noted.sightings = slices.Delete(noted.sightings, 0, 1)
	}
	select {
	case c.news <- struct{}{}:
	default: // there are some already
	}
}

// next takes the change whose turn it is. It is false if there is none.
func (m *model) next() (change, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.changes.turns) == 0 {
		return change{}, false
	}
	next := m.changes.waiting[m.changes.turns[0]]
	m.changes.turns = m.changes.turns[1:]
	delete(m.changes.waiting, next.name)
	if cluster, known := m.clusters[next.name]; known {
		next.after = &cluster
	}
	asked := m.readers
	if next.loud {
		asked = m.requests
	}
	next.asked = maps.Clone(asked)
	return *next, true
}

// affected returns the Placements that can care. It runs expressions of users, and
// the model is not locked then: a Placement that is tracked in between looks at
// the fleet later, and sees the change.
func (c change) affected(now time.Time) []types.NamespacedName {
	var affected []types.NamespacedName
	for key, t := range c.asked {
		if c.affects(t, now) {
			affected = append(affected, key)
		}
	}
	return affected
}

// affects compares with the state that a Placement has seen.
func (c change) affects(t *tracked, now time.Time) bool {
	if t.deciding && len(c.sightings) > 1 || c.forgotten > 0 && t.seen <= c.forgotten {
		return true // which one it has seen is not known
	}
	at := slices.IndexFunc(c.sightings, func(s sighting) bool { return t.seen <= s.until })
	return at >= 0 && t.cares(c.sightings[at].cluster, c.after, c.name, now) // or else it has seen how it is now
}

// enqueueAffected is a source of the controller. It takes one change after another, so
// that the events of all clusters need not wait until all Placements were asked.
func (c *Controller) enqueueAffected(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	go func() {
		for ctx.Err() == nil {
			next, there := c.model.next()
			if !there {
				select {
				case <-ctx.Done():
				case <-c.model.changes.news:
				}
				continue
			}
			for _, key := range next.affected(c.clock.Now()) {
				q.Add(reconcile.Request{NamespacedName: key})
			}
		}
	}()
	return nil
}
