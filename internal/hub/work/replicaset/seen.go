// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/rollout"
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
	// given are the clusters that have been sent the template.
	given map[string]bool
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
	clusters, given := map[string]rollout.State{}, map[string]bool{}
	for _, part := range p.Progress {
		for cluster, state := range part.States {
			if work := f.work(cluster); f.Given[cluster] || work != nil && work.Annotations[keptHash] == f.Template {
				given[cluster] = true
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
	s.sets[set] = sight{template: f.Template, clusters: clusters, given: given}
}

// give notes that clusters are sent the template now.
func (s *seen) give(set types.NamespacedName, writes []write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range writes {
		if w.Spec {
			s.sets[set].given[w.Cluster] = true
		}
	}
}

// given returns the clusters that have been sent the template.
func (s *seen) given(set types.NamespacedName, template string) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.sets[set]; last.template == template {
		return last.given
	}
	return nil
}

// forget forgets a replica set that is gone.
func (s *seen) forget(set types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sets, set)
}
