// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/kube/order"
	"github.com/capstan-io/capstan/internal/kube/written"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
)

// fleetModel is the fleet as the controller knows it, and what Placements have made
// of it. It is kept up to date by events, so that an event of a cluster finds
// the few Placements that can care. It is safe for concurrent use.
type fleetModel struct {
	mu       sync.Mutex
	clusters map[string]view.Cluster
	scores   map[string]map[string]scoreSet           // by cluster and AddOnPlacementScore
	chosen   map[types.NamespacedName]decisionListing // by PlacementDecision
	counts   map[string]int                           // of decisions, by cluster
	tenants  map[string]*tenant                       // by namespace
	// fleet is as it was when it was asked for last. Since then the clusters that
	// are stale have changed.
	fleet view.Fleet
	stale map[string]bool
	// snapshots is how many different ones there were, the empty one included.
	snapshots uint64
	turns     order.Turns   // of namespaces that have not found out yet who cares about changes
	news      chan struct{} // has an element if there may be some
}

// decisionListing is what is known of a PlacementDecision.
type decisionListing struct {
	version string // the resourceVersion
	says    decisionContent
	// coming is what we are about to write; it is nil when nothing is under way.
	coming *decisionContent
}

// decisionContent is what a PlacementDecision says.
type decisionContent struct {
	clusters []string
	// fingerprint is all of it that is ours.
	fingerprint string
	// unwritten says that it has no status.
	unwritten bool
}

// scoreSet is what one AddOnPlacementScore says.
type scoreSet map[view.ScoreName]view.Score

// trackedPlacement is what a Placement asks for, and has.
type trackedPlacement struct {
	request placement.CompiledRequest
	targets []string // in the order of names
	seen    uint64   // the number of the snapshot that it has looked at
	// deciding says that the targets are being chosen.
	deciding bool
	// wanting says that there are fewer than it asks for.
	wanting bool
}

// affectedByChange reports whether a change of a cluster can matter.
func (t trackedPlacement) affectedByChange(before, after *view.Cluster, name string, now time.Time) bool {
	if t.deciding { // whether it will be chosen is not known
		return t.canBeAffected(before, after, true, now) || t.canBeAffected(before, after, false, now)
	}
	_, chosen := slices.BinarySearch(t.targets, name)
	return t.canBeAffected(before, after, chosen, now)
}

func (t trackedPlacement) canBeAffected(before, after *view.Cluster, chosen bool, now time.Time) bool {
	return t.request.AffectedByChange(before, after, chosen, now) || chosen && t.request.Grouping.MovesCluster(before, after) ||
		(t.deciding || t.wanting) && t.request.Reconsiders(before, after, chosen, now)
}

func newFleetModel() *fleetModel {
	return &fleetModel{
		clusters: map[string]view.Cluster{}, scores: map[string]map[string]scoreSet{}, chosen: map[types.NamespacedName]decisionListing{},
		counts: map[string]int{}, tenants: map[string]*tenant{}, stale: map[string]bool{},
		snapshots: 1, news: make(chan struct{}, 1),
	}
}

// setCluster notes what is known of a cluster now.
func (m *fleetModel) setCluster(c view.Cluster) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Scores = m.clusterScores(c.Name)
	m.replaceCluster(c.Name, &c)
}

// forgetCluster notes that a cluster is gone.
func (m *fleetModel) forgetCluster(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replaceCluster(name, nil)
}

// setScores notes what an AddOnPlacementScore says of a cluster, nil if it is gone.
func (m *fleetModel) setScores(cluster, resource string, scores scoreSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.scores[cluster] == nil {
		m.scores[cluster] = map[string]scoreSet{}
	}
	m.scores[cluster][resource] = scores
	if scores == nil {
		delete(m.scores[cluster], resource)
	}
	if len(m.scores[cluster]) == 0 {
		delete(m.scores, cluster)
	}
	if c, known := m.clusters[cluster]; known {
		c.Scores = m.clusterScores(cluster)
		m.replaceCluster(cluster, &c)
	}
}

func (m *fleetModel) clusterScores(cluster string) map[view.ScoreName]view.Score {
	all := map[view.ScoreName]view.Score{}
	for _, scores := range m.scores[cluster] {
		maps.Copy(all, scores)
	}
	return all
}

// replaceCluster puts a cluster in the place of the one that was known, nil for none.
func (m *fleetModel) replaceCluster(name string, after *view.Cluster) {
	var before *view.Cluster
	if c, known := m.clusters[name]; known {
		before = &c
	}
	m.stale[name] = true
	if after == nil {
		delete(m.clusters, name)
	} else {
		m.clusters[name] = *after
	}
	m.recordChange(name, before, before == nil || after == nil || !view.AreAlike(*before, *after))
}

// sawDecision notes what a PlacementDecision says, of which an event tells, and
// reports whether somebody else has written that. Events come late: what is older
// than what is known does not count.
func (m *fleetModel) sawDecision(key types.NamespacedName, version string, says decisionContent) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.chosen[key]
	if written.IsSince(known.version, version) {
		return false
	}
	if says.unwritten && known.coming != nil {
		return false // we have created it, and its status follows
	}
	m.replaceListing(key, decisionListing{version: version, says: says, coming: known.coming})
	ours := known.coming != nil && known.coming.fingerprint == says.fingerprint
	return !ours && known.says.fingerprint != says.fingerprint
}

// lostDecision notes that a PlacementDecision is gone, and reports whether that is
// new.
func (m *fleetModel) lostDecision(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, known := m.chosen[key]
	m.replaceListing(key, decisionListing{})
	delete(m.chosen, key)
	return known
}

// beginDecisionWrite notes what is about to be written to a PlacementDecision, so that the
// event that tells of it is no news, although it may come before the answer.
func (m *fleetModel) beginDecisionWrite(key types.NamespacedName, says decisionContent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.chosen[key]
	l.coming = &says
	m.chosen[key] = l
}

// finishDecisionWrite notes how that ended: the version is "" if it failed.
func (m *fleetModel) finishDecisionWrite(key types.NamespacedName, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.chosen[key]
	coming := l.coming
	l.coming = nil
	m.chosen[key] = l
	switch {
	case coming != nil && version != "" && !written.IsSince(l.version, version):
		m.replaceListing(key, decisionListing{version: version, says: *coming})
	case l.version == "": // it does not exist
		delete(m.chosen, key)
	}
}

// replaceListing puts a listing in the place of the one that was known.
func (m *fleetModel) replaceListing(key types.NamespacedName, l decisionListing) {
	for _, c := range m.chosen[key].says.clusters {
		if m.counts[c]--; m.counts[c] == 0 {
			delete(m.counts, c)
		}
		m.stale[c] = true
	}
	for _, c := range l.says.clusters {
		m.counts[c]++
		m.stale[c] = true
	}
	m.chosen[key] = l
}

// trackPlacement notes what a Placement asks for, and has.
func (m *fleetModel) trackPlacement(key types.NamespacedName, t trackedPlacement) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.tenants[key.Namespace]
	if of == nil {
		of = newTenant()
		m.tenants[key.Namespace] = of
	}
	of.requests[key] = &t
	delete(of.readers, key)
	if t.request.ReadsFields() {
		of.readers[key] = &t
	}
}

// untrackPlacement drops a Placement that is gone.
func (m *fleetModel) untrackPlacement(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.tenants[key.Namespace]
	if of == nil {
		return
	}
	delete(of.requests, key)
	delete(of.readers, key)
	if len(of.requests) == 0 && !of.waits {
		delete(m.tenants, key.Namespace)
	}
}

// snapshot returns the fleet as it is now, and the number of that state.
func (m *fleetModel) snapshot() (view.Fleet, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.stale) == 0 {
		return m.fleet, m.snapshots
	}
	var changed []view.Cluster
	var gone []string
	for name := range m.stale {
		c, known := m.clusters[name]
		if !known {
			gone = append(gone, name)
			continue
		}
		c.Decisions = m.counts[name]
		changed = append(changed, c)
	}
	m.fleet = m.fleet.WithClusters(changed, gone)
	clear(m.stale)
	m.snapshots++
	return m.fleet, m.snapshots
}
