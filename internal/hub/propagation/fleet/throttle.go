// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

const (
	// HeardAtOnce is how many changes of a cluster in a row are followed at once.
	HeardAtOnce = 10
	// HeardEvery is how long it takes until one more is.
	HeardEvery = time.Minute
)

// ClusterThrottle says when a controller looks at what a cluster says now. Its agent can say
// something else as often as it likes, and all that the cluster has would be looked at
// each time, before what tenants have changed. It is safe for concurrent use.
type ClusterThrottle struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	clusters map[reportTopic]*throttleBudget
}

// reportTopic is what a cluster says something about, or does. Who says much of how much room there is, for example, is not to
// be heard later when it is about to fail.
type reportTopic struct {
	cluster string
	about   topicSubject
}

type topicSubject int

const (
	aboutItself topicSubject = iota
	aboutAvailability
	aboutWorks
	topicSubjects
)

// throttleBudget is how many changes are still heard at once, and since when one more is earned.
type throttleBudget struct {
	left  int
	since time.Time
}

// NewClusterThrottle returns one that has heard nobody.
func NewClusterThrottle(clk clock.PassiveClock) *ClusterThrottle {
	return &ClusterThrottle{clock: clk, clusters: map[reportTopic]*throttleBudget{}}
}

// ChangeDelay returns how long to wait with a look at a cluster that was one thing and is another;
// nil is none. What comes meanwhile is heard together with it. What somebody on the hub has
// done does not wait.
func (t *ClusterThrottle) ChangeDelay(cluster string, before, after *view.Cluster) time.Duration {
	switch {
	case before == nil || after == nil:
		t.forgetCluster(cluster)
		return 0
	case decidedOnHub(before, after):
		return 0
	}
	about := aboutItself
	if before.Available != after.Available {
		about = aboutAvailability
	}
	return t.throttleDelay(reportTopic{cluster, about})
}

// WorkDelay returns how long to wait with a look at what somebody else than the hub has changed in a work of a cluster.
func (t *ClusterThrottle) WorkDelay(cluster string) time.Duration {
	return t.throttleDelay(reportTopic{cluster, aboutWorks})
}

// decidedOnHub reports whether an administrator has changed a cluster, and not only its
// agent what it says. Taints about its health follow what the agent says, and some labels
// are left to it.
func decidedOnHub(before, after *view.Cluster) bool {
	ofHealth := func(t view.Taint) bool {
		return t.Key == clusterv1.TaintUnavailable || t.Key == clusterv1.TaintUnreachable
	}
	chosen := func(taints []view.Taint) []view.Taint { return slices.DeleteFunc(slices.Clone(taints), ofHealth) }
	return before.Accepted != after.Accepted || before.Admission != after.Admission || before.Deleting != after.Deleting || before.Mode != after.Mode || !maps.Equal(before.LabelsOfHub(), after.LabelsOfHub()) ||
		!slices.Equal(chosen(before.Taints), chosen(after.Taints))
}

// throttleDelay returns how long to wait with a change that comes now.
func (t *ClusterThrottle) throttleDelay(of reportTopic) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	a := t.clusters[of]
	if a == nil {
		a = &throttleBudget{left: HeardAtOnce, since: now}
		t.clusters[of] = a
	}
	earned := int(now.Sub(a.since) / HeardEvery)
	a.since = a.since.Add(time.Duration(earned) * HeardEvery)
	if a.left += earned; a.left >= HeardAtOnce {
		a.left = HeardAtOnce
		a.since = now
	}
	if a.left == 0 {
		return a.since.Add(HeardEvery).Sub(now)
	}
	a.left--
	return 0
}

// forgetCluster forgets a cluster that is gone.
func (t *ClusterThrottle) forgetCluster(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for about := range topicSubjects {
		delete(t.clusters, reportTopic{cluster, about})
	}
}
