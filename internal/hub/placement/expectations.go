// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/kube/written"
)

// expectations are own writes that the cache may not show yet. Who decides by
// what was before them can find nothing to do, and is not told later: the event
// of the write says only what the controller knows.
type expectations struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	writes map[types.NamespacedName]writtenObjects // by Placement
}

// writtenObjects is what was written for a Placement: one that has the name of another
// that is gone does not wait for what was written for that.
type writtenObjects struct {
	placement types.UID
	objects   map[types.UID]expectation
}

// expectation is a version that an object has at least, "" if it is gone.
type expectation struct {
	version string
	until   time.Time
}

func newExpectations(clk clock.PassiveClock) *expectations {
	return &expectations{clock: clk, writes: map[types.NamespacedName]writtenObjects{}}
}

// expectWritten notes that the Placement or one of its decisions was written.
func (e *expectations) expectWritten(p *clusterv1beta1.Placement, object client.Object) {
	e.expectVersion(p, object, object.GetResourceVersion())
}

// expectDeleted notes that one of its decisions was deleted.
func (e *expectations) expectDeleted(p *clusterv1beta1.Placement, object client.Object) {
	e.expectVersion(p, object, "")
}

func (e *expectations) expectVersion(p *clusterv1beta1.Placement, object client.Object, version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := client.ObjectKeyFromObject(p)
	if e.writes[key].placement != p.UID || e.writes[key].objects == nil {
		e.writes[key] = writtenObjects{placement: p.UID, objects: map[types.UID]expectation{}}
	}
	e.writes[key].objects[object.GetUID()] = expectation{version: version, until: e.clock.Now().Add(written.BehindMax)}
}

// areSatisfiedBy reports whether what was read shows all that was written: the Placement, and
// PlacementDecisions of its namespace.
func (e *expectations) areSatisfiedBy(p *clusterv1beta1.Placement, decisions []clusterv1beta1.PlacementDecision) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := client.ObjectKeyFromObject(p)
	now := e.clock.Now()
	shown := map[types.UID]client.Object{p.UID: p}
	for i := range decisions {
		shown[decisions[i].UID] = &decisions[i]
	}
	for uid, expected := range e.writes[key].objects {
		if e.writes[key].placement == p.UID && !expected.isSatisfiedBy(shown[uid]) && now.Before(expected.until) {
			return false
		}
	}
	delete(e.writes, key)
	return true
}

// observeDecision notes an event of a PlacementDecision: what is there, or was and is gone.
func (e *expectations) observeDecision(key types.NamespacedName, object client.Object, gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	expected, ours := e.writes[key].objects[object.GetUID()]
	if ours && (gone || expected.isSatisfiedBy(object)) {
		delete(e.writes[key].objects, object.GetUID())
	}
}

// isSatisfiedBy reports whether an object is as expected; nil is one that is gone. One that
// a finalizer keeps is deleted as far as we are concerned.
func (x expectation) isSatisfiedBy(object client.Object) bool {
	if object == nil || x.version == "" {
		return x.version == "" && (object == nil || !object.GetDeletionTimestamp().IsZero())
	}
	return !written.IsAfter(x.version, object.GetResourceVersion())
}

// forgetExpectations drops what was written for a Placement.
func (e *expectations) forgetExpectations(key types.NamespacedName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.writes, key)
}
