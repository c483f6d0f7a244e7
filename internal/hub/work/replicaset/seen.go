// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// seenStates is how the controller saw the clusters of replica sets last, with the template
// that these had: since when something is so must not be for the clusters to say. What a
// controller has not seen itself it takes from the works. The zero value has seen
// nothing; it is safe for concurrent use.
type seenStates struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]sight
}

// sight is what was seen of one replica set.
type sight struct {
	template string // its hash
	clusters map[string]rollout.ClusterState
	turns    map[string]turn
}

// turn is the turn of a cluster to get the template.
type turn struct {
	// version is the resource version that the work had in the cache when the template was
	// last written into it; empty if none was.
	version string
}

// isNotSeenYet reports whether the cache still has the work from before the template was
// written into it.
func (t turn) isNotSeenYet(work *workv1.ManifestWork) bool {
	return t.version != "" && t.version == work.ResourceVersion
}

// statesWithTemplate returns how the clusters were seen with a template. It must not be changed.
func (s *seenStates) statesWithTemplate(set types.NamespacedName, template string) map[string]rollout.ClusterState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.sets[set]; last.template == template {
		return last.clusters
	}
	return nil
}

// keepStates keeps how the clusters are by a plan. Of one that does not have the template, or
// no more, it keeps how it was with it.
func (s *seenStates) keepStates(set types.NamespacedName, f planFacts, p rolloutPlan) {
	clusters := map[string]rollout.ClusterState{}
	turns := map[string]turn{}
	for _, part := range p.Progress {
		for cluster, state := range part.States {
			if work := f.firstWork(cluster); f.hadTurn(cluster) || work != nil && work.Annotations[keptHash] == f.Template {
				turns[cluster] = f.Turns[cluster]
			}
			if state.Status != rollout.ToApply {
				clusters[cluster] = state.ClusterState
			} else if last, before := f.Seen[cluster]; before {
				clusters[cluster] = last
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil {
		s.sets = map[types.NamespacedName]sight{}
	}
	s.sets[set] = sight{template: f.Template, clusters: clusters, turns: turns}
}

// giveTurns notes that it is now the turn of clusters to get the template. It is noted
// before anything is written: a cluster into whose work nothing can be written would hold
// up the others if it were always the next.
func (s *seenStates) giveTurns(set types.NamespacedName, writes []workWrite) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		if w.Spec {
			s.sets[set].turns[w.Cluster] = turn{}
		}
	}
}

// recordWrite notes that the template was written into the work of a cluster.
func (s *seenStates) recordWrite(set types.NamespacedName, w workWrite) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[set].turns[w.Cluster] = turn{version: w.Work.ResourceVersion}
}

// turnsWithTemplate returns the clusters that have had their turn to get the template. It must not be
// changed.
func (s *seenStates) turnsWithTemplate(set types.NamespacedName, template string) map[string]turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.sets[set]; last.template == template {
		return last.turns
	}
	return nil
}

// forgetReplicaSet forgets a replica set that is gone.
func (s *seenStates) forgetReplicaSet(set types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sets, set)
}
