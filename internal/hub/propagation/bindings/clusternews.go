// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"maps"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/inbox"
	"github.com/capstan-io/capstan/internal/kube/order"
)

// apartMax is how many changes of a cluster wait as they came. Beyond, the last ones become
// one: an agent can have its cluster change without end.
const apartMax = 8

// clusterChange is what became of a cluster; nil is none.
type clusterChange struct {
	before, after *view.Cluster
	// gap says that it was something else meanwhile.
	gap bool
}

// clusterNews are the changes of clusters that wait. All of them are followed together, as a look
// at all bindings takes as long for one as for many.
type clusterNews struct {
	mu      sync.Mutex
	waiting map[string][]clusterChange // of each cluster, the oldest first
	news    chan struct{}              // has an element if there may be some
}

func newClusterNews() *clusterNews {
	return &clusterNews{waiting: map[string][]clusterChange{}, news: make(chan struct{}, 1)}
}

// recordChange takes in a change. It returns at once.
func (n *clusterNews) recordChange(cluster string, before, after *view.Cluster) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if all := n.waiting[cluster]; len(all) >= apartMax {
		last := &all[len(all)-1]
		last.after = after
		last.gap = true
		return
	}
	n.waiting[cluster] = append(n.waiting[cluster], clusterChange{before: before, after: after})
	select {
	case n.news <- struct{}{}:
	default: // there are some already
	}
}

// takeChanges takes out all changes.
func (n *clusterNews) takeChanges() map[string][]clusterChange {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := n.waiting
	n.waiting = map[string][]clusterChange{}
	return all
}

// openNews has the queue of a controller filled with the bindings that changes of clusters can matter
// to, as long as it runs.
func (w clusterWatch) openNews(ctx context.Context, q bindingQueue) error {
	go inbox.FollowNews(ctx, w.news.news, func() bool { return w.followChanges(q) })
	return nil
}

// followChanges follows the changes that wait, and reports whether there were any. It is called by one
// goroutine at a time, and not by those that tell of changes: placements that tenants write are
// read for it.
func (w clusterWatch) followChanges(q bindingQueue) bool {
	changes := w.news.takeChanges()
	if len(changes) == 0 {
		return false
	}
	w.stakes.FollowClusters(slices.Collect(maps.Keys(changes)))
	applied := w.Store.Decider.ReadApplied(w.stakes.ListGroups())
	for cluster, all := range changes {
		for _, change := range all {
			if change.gap {
				change.after = w.known(cluster)
			}
			w.enqueueAffected(q, applied, cluster, change)
		}
		if w.known(cluster) == nil {
			w.stakes.ForgetCluster(cluster)
		}
	}
	return true
}

// known returns what a cluster is now, nil if there is none. What was noted last may be older: the
// watches of clusters and of connections do not wait for each other between what they tell the fleet
// and what they note.
func (w clusterWatch) known(cluster string) *view.Cluster {
	if is, found := w.Fleet.Snapshot().ClusterNamed(cluster); found {
		return &is
	}
	return nil
}

// enqueueAffected brings back the bindings that a change of a cluster can matter to.
func (w clusterWatch) enqueueAffected(q bindingQueue, applied decide.AppliedPlacements, cluster string, change clusterChange) {
	affected := w.affectedBindings(applied, cluster, change)
	confirmed := w.bindingsToConfirm(applied, cluster, change)
	if len(affected)+len(confirmed) == 0 {
		return
	}
	wait := w.hearing.ChangeDelay(cluster, change.before, change.after)
	for _, name := range affected {
		q.AddAfter(reconcile.Request{NamespacedName: name}, wait)
	}
	for _, name := range confirmed {
		order.AddLater(q, reconcile.Request{NamespacedName: name}, wait)
	}
}
