// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// seen is how the controller saw the clusters of replica sets last, with the template
// that these had: since when something is so must not be for the clusters to say. What a
// controller has not seen itself it takes from the works. The zero value has seen
// nothing; it is safe for concurrent use.
type seen struct {
	mu   sync.Mutex
	sets map[types.NamespacedName]sight
}

// sight is what was seen of one replica set.
type sight struct {
	template string // its hash
	clusters map[string]rollout.State
	turns    map[string]turn
}

// turn is the turn of a cluster to get the template.
type turn struct {
	// version is the resource version that the work had in the cache when the template was
	// last written into it; empty if none was.
	version string
}

// isNotSeenYet tells whether the cache still has the work from before the template was
// written into it.
func (t turn) isNotSeenYet(work *workv1.ManifestWork) bool {
	return t.version != "" && t.version == work.ResourceVersion
}

// with returns how the clusters were seen with a template. It must not be changed.
func (s *seen) with(set types.NamespacedName, template string) map[string]rollout.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.sets[set]; last.template == template {
		return last.clusters
	}
	return nil
}

// keep keeps how the clusters are by a plan. Of one that does not have the template, or
// no more, it keeps how it was with it.
func (s *seen) keep(set types.NamespacedName, f facts, p plan) {
	clusters := map[string]rollout.State{}
	turns := map[string]turn{}
	for _, part := range p.Progress {
		for cluster, state := range part.States {
			if work := f.work(cluster); f.hadTurn(cluster) || work != nil && work.Annotations[keptHash] == f.Template {
				turns[cluster] = f.Turns[cluster]
			}
			if state.Status != rollout.ToApply {
				clusters[cluster] = state.State
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
func (s *seen) giveTurns(set types.NamespacedName, writes []write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		if w.Spec {
			s.sets[set].turns[w.Cluster] = turn{}
		}
	}
}

// wrote notes that the template was written into the work of a cluster.
func (s *seen) wrote(set types.NamespacedName, w write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sets[set].turns[w.Cluster] = turn{version: w.Work.ResourceVersion}
}

// turns returns the clusters that have had their turn to get the template. It must not be
// changed.
func (s *seen) turns(set types.NamespacedName, template string) map[string]turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.sets[set]; last.template == template {
		return last.turns
	}
	return nil
}

// forget forgets a replica set that is gone.
func (s *seen) forget(set types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sets, set)
}
