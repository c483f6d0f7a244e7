// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package secretcopy

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-io/capstan/internal/kube/backoff"
)

const (
	// lookMin is the shortest time between two looks at a cluster that waits; it doubles.
	lookMin = time.Second
	// LookMax is the longest.
	LookMax = 30 * time.Second
	// lookTimeout bounds one look.
	lookTimeout = 30 * time.Second
	// searchEvery is the time between two searches for clusters that wait: another
	// replica that was to look at them may be gone. searchAgain is that after a search
	// that failed.
	searchEvery = 10 * time.Minute
	searchAgain = 10 * time.Second
	// waitingMax is how many clusters may wait at a time.
	waitingMax = 100
)

// WaitingClusters is what is known of the clusters that wait for Secrets.
type WaitingClusters interface {
	// Waiting gives the name of each of them to take.
	Waiting(ctx context.Context, take func(cluster string)) error
	// CopyAwaited copies the Secrets that a cluster waits for and that exist by now, and
	// reports whether it still waits.
	CopyAwaited(ctx context.Context, cluster string) (waits bool, err error)
}

// CopyLoop looks at the clusters that wait for Secrets until these are copied. Several
// replicas may do so at the same time.
type CopyLoop struct {
	clusters WaitingClusters
	clock    clock.Clock
	// added says that there is another cluster to look at.
	added chan struct{}

	mu      sync.Mutex
	waiting map[string]scheduledLook
}

// scheduledLook is the next one at a cluster, after so many in vain.
type scheduledLook struct {
	at     time.Time
	vainly int
}

// NewCopyLoop returns a loop that knows no cluster yet.
func NewCopyLoop(clusters WaitingClusters, clk clock.Clock) *CopyLoop {
	return &CopyLoop{clusters: clusters, clock: clk, added: make(chan struct{}, 1), waiting: map[string]scheduledLook{}}
}

// HasRoomFor reports whether one cluster more may wait; one that does already may.
func (l *CopyLoop) HasRoomFor(cluster string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, known := l.waiting[cluster]
	return known || len(l.waiting) < waitingMax
}

// AddWaiting has the loop look at a cluster, soon, that begins to wait.
func (l *CopyLoop) AddWaiting(cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[cluster] = scheduledLook{at: l.clock.Now().Add(lookMin)}
	l.wake()
}

// addFoundCluster adds a cluster that waits, unless it is known.
func (l *CopyLoop) addFoundCluster(cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.waiting[cluster]; !known {
		l.waiting[cluster] = scheduledLook{at: l.clock.Now()}
	}
}

func (l *CopyLoop) wake() {
	select {
	case l.added <- struct{}{}:
	default: // it is about to look
	}
}

// RunCopyLoop searches for clusters that wait, and looks at them, until ctx ends.
func (l *CopyLoop) RunCopyLoop(ctx context.Context) {
	search := l.clock.Now()
	for ctx.Err() == nil {
		if now := l.clock.Now(); !now.Before(search) {
			search = now.Add(l.searchWaiting(ctx))
		}
		for _, cluster := range l.dueClusters() {
			l.copyIfPresent(ctx, cluster)
		}
		timer := l.clock.NewTimer(l.nextDueTime(search).Sub(l.clock.Now()))
		select {
		case <-ctx.Done():
		case <-l.added:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// searchWaiting finds clusters that wait, and returns how long it is until the next
// search.
func (l *CopyLoop) searchWaiting(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	if err := l.clusters.Waiting(ctx, l.addFoundCluster); err != nil {
		log.FromContext(ctx).V(1).Info("Cannot search for clusters that wait for Secrets, which is tried again", "problem", err.Error())
		return searchAgain
	}
	return searchEvery
}

// dueClusters returns the clusters to look at now.
func (l *CopyLoop) dueClusters() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name, next := range l.waiting {
		if !l.clock.Now().Before(next.at) {
			names = append(names, name)
		}
	}
	return names
}

// nextDueTime returns when there is something to do: a search, if no look is earlier.
func (l *CopyLoop) nextDueTime(search time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := search
	for _, look := range l.waiting {
		if look.at.Before(next) {
			next = look.at
		}
	}
	return next
}

// copyIfPresent copies what a cluster waits for, if it is there.
func (l *CopyLoop) copyIfPresent(ctx context.Context, cluster string) {
	l.mu.Lock()
	before := l.waiting[cluster]
	l.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	waits, err := l.clusters.CopyAwaited(limited, cluster)
	if err != nil && ctx.Err() == nil {
		log.FromContext(ctx).V(1).Info("Cannot look for the Secrets that a cluster waits for, which is tried again", "cluster", cluster, "problem", err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.waiting[cluster] != before: // it began to wait for another one meanwhile
	case waits || err != nil:
		after := scheduledLook{vainly: before.vainly + 1}
		after.at = l.clock.Now().Add(backoff.DelayAfter(after.vainly+1, backoff.ExponentialBetween(lookMin, LookMax)))
		l.waiting[cluster] = after
	default:
		delete(l.waiting, cluster)
	}
}
