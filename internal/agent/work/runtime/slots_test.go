// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package runtime

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

const (
	allWorkers = 16
	mostOfOne  = 4
)

// office is workers with the queue that leads to them, without goroutines.
type office struct {
	workers  *WorkerPool
	clusters map[fleet.ClusterName]*ClusterSlots
	queue    []WorkRequest
	busy     map[fleet.ClusterName]int
	// hand is how to give back what each work in hand has, in the order in which they were taken.
	hand map[fleet.ClusterName][]workInHand
}

type workInHand struct {
	owner   string
	release func()
}

func newOffice() *office {
	return &office{
		workers: NewWorkerPool(allWorkers, mostOfOne), clusters: map[fleet.ClusterName]*ClusterSlots{}, busy: map[fleet.ClusterName]int{},
		hand: map[fleet.ClusterName][]workInHand{},
	}
}

// come puts requests of a cluster into the queue.
func (o *office) come(cluster fleet.ClusterName, works int) { o.comeOf("", cluster, works) }

// comeOf puts requests for works of an owner into the queue.
func (o *office) comeOf(owner string, cluster fleet.ClusterName, works int) {
	if o.clusters[cluster] == nil {
		o.clusters[cluster] = o.workers.SlotsFor(func(r WorkRequest) { o.queue = append(o.queue, r) }, ownerByName)
	}
	for i := range works {
		o.queue = append(o.queue, WorkRequest{Cluster: cluster, Work: fmt.Sprint(owner, ".", i)})
	}
}

// ownerByName returns whose a work is by its name.
func ownerByName(request WorkRequest) string {
	owner, _, _ := strings.Cut(request.Work, ".")
	return owner
}

// begin hands out what is in the queue as long as there are workers.
func (o *office) begin() {
	for len(o.queue) > 0 && o.inHand() < allWorkers {
		next := o.queue[0]
		o.queue = o.queue[1:]
		if release := o.clusters[next.Cluster].AcquireSlot(next); release != nil {
			o.busy[next.Cluster]++
			o.hand[next.Cluster] = append(o.hand[next.Cluster], workInHand{ownerByName(next), release})
		}
	}
}

// end finishes a work of a cluster.
func (o *office) end(cluster fleet.ClusterName) {
	o.busy[cluster]--
	first := o.hand[cluster][0]
	o.hand[cluster] = o.hand[cluster][1:]
	first.release()
}

func (o *office) inHand() (all int) {
	for _, n := range o.busy {
		all += n
	}
	return all
}

func slowCluster(i int) fleet.ClusterName { return fleet.ClusterName(fmt.Sprintf("slow-%d", i)) }

func TestThereIsAWorkerForOneMoreCluster(t *testing.T) {
	for slow := range allWorkers / 2 {
		o := newOffice()
		for i := range slow {
			o.come(slowCluster(i), allWorkers)
		}
		o.begin()
		for cluster, n := range o.busy {
			if n == 0 || n > mostOfOne {
				t.Errorf("of %d slow clusters, %s has %d works in hand, want 1 to %d", slow, cluster, n, mostOfOne)
			}
		}
		o.come("well", 2)
		o.begin()
		if o.busy["well"] == 0 {
			t.Errorf("%d slow clusters have all %d workers: %v", slow, allWorkers, o.busy)
		}
	}
}

func TestOneClusterHasAsManyWorkersAsItMay(t *testing.T) {
	alone := NewWorkerPool(allWorkers, allWorkers).SlotsFor(func(WorkRequest) {}, ownerByName)
	for i := range allWorkers {
		if alone.AcquireSlot(WorkRequest{Work: fmt.Sprint(i)}) == nil {
			t.Fatalf("the only cluster has %d of %d workers", i, allWorkers)
		}
	}
}

func TestClustersTakeTurnsUntilAllIsDone(t *testing.T) {
	const works = 100
	o, done := newOffice(), map[fleet.ClusterName]int{}
	for i := range 6 { // so that not all have what they may
		o.come(slowCluster(i), works)
	}
	for o.begin(); o.inHand() > 0; o.begin() {
		for i := range 6 { // each ends one of its works
			if cluster := slowCluster(i); o.busy[cluster] > 0 {
				o.end(cluster)
				done[cluster]++
			}
		}
	}
	for i := range 6 {
		if n := done[slowCluster(i)]; n != works {
			t.Errorf("%s: %d of %d works were done: the others were forgotten", slowCluster(i), n, works)
		}
	}
	if o.workers.spare != allWorkers/2 || len(o.queue) > 0 {
		t.Errorf("when all is done %d workers are spare and %d requests wait, want %d and none", o.workers.spare, len(o.queue), allWorkers/2)
	}
}

func TestARequestWaitsOnceOnly(t *testing.T) {
	o := newOffice()
	o.come("c", allWorkers)
	o.come("c", allWorkers) // the same ones
	o.begin()
	if n := len(o.clusters["c"].owners[""].turns); n != allWorkers {
		t.Errorf("%d requests wait, want %d", n, allWorkers)
	}
}

func TestWhoWaitsGoesOnWhenTheOthersAreDone(t *testing.T) {
	o := newOffice()
	o.come("first", mostOfOne)
	o.come("second", mostOfOne)
	o.come("third", mostOfOne+allWorkers) // there is room for less than it may have
	o.begin()
	before := o.busy["third"]
	for range mostOfOne {
		o.end("first")
		o.end("second")
		o.begin()
	}
	if before >= mostOfOne || o.busy["third"] != mostOfOne {
		t.Errorf("the third had %d workers and has %d when the others are done, want less than %d, and %d", before, o.busy["third"], mostOfOne, mostOfOne)
	}
}

// TestOwnersTakeTurnsInACluster has somebody bring one work to a cluster in which another has a thousand.
func TestOwnersTakeTurnsInACluster(t *testing.T) {
	o := newOffice()
	o.comeOf("many", "c", 1000)
	o.begin()
	o.comeOf("few", "c", 2)
	o.begin()
	for range 2 {
		o.end("c")
		o.begin()
	}
	owners := map[string]int{}
	for _, work := range o.hand["c"] {
		owners[work.owner]++
	}
	if owners["few"] != 2 || owners["many"] != mostOfOne-2 {
		t.Errorf("after two works are done, those in hand are of %v, want two of each", owners)
	}
	for o.inHand() > 0 {
		o.end("c")
		o.begin()
	}
	slots := o.clusters["c"]
	if left := len(slots.parked) + len(slots.owners) + len(slots.line) + len(o.queue); left > 0 {
		t.Errorf("when all is done, %d are left: %d requests wait of %d owners", left, len(slots.parked), len(slots.owners))
	}
}
