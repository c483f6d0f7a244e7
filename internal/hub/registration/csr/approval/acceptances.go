// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"maps"
	"sync"
	"time"

	"k8s.io/utils/clock"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/kube/written"
)

// recentAcceptances are the clusters that are accepted automatically now, or were a moment ago, so that a cache may not show it:
// several requests of a user are decided about at a time. It is safe for concurrent use.
type recentAcceptances struct {
	clock clock.PassiveClock

	mu sync.Mutex
	of map[acceptance]time.Time
}

// acceptance is that of a cluster for a user.
type acceptance struct{ user, cluster string }

func newRecentAcceptances(clk clock.PassiveClock) *recentAcceptances {
	return &recentAcceptances{clock: clk, of: map[acceptance]time.Time{}}
}

// beginAcceptance notes that a cluster is being accepted, and reports whether it may be: a user has some that a cache shows, and so many
// at most.
func (r *recentAcceptances) beginAcceptance(one acceptance, shown []clusterv1.ManagedCluster, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	maps.DeleteFunc(r.of, func(_ acceptance, since time.Time) bool { return now.Sub(since) >= written.BehindMax })
	for i := range shown {
		delete(r.of, acceptance{one.user, shown[i].Name})
	}
	others := len(shown)
	for other := range r.of {
		if other.user == one.user && other != one {
			others++
		}
	}
	if others >= most {
		return false
	}
	r.of[one] = now
	return true
}

// endAcceptance notes that a cluster is not accepted after all.
func (r *recentAcceptances) endAcceptance(one acceptance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, one)
}
