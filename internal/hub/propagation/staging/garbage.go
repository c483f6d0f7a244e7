// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// garbage are the names of revisions that are to be deleted, by the binding or the
// rollout that is tried again until they are. One that stays would be taken later
// for what clusters have.
type garbage map[string]types.NamespacedName

func (g garbage) add(by types.NamespacedName, revisions []revision) {
	for _, r := range revisions {
		g[r.name] = by
	}
}

// drop deletes the revisions that a binding or a rollout is to delete.
func (s *Stages) drop(ctx context.Context, by types.NamespacedName) error {
	s.mu.Lock()
	var names []string
	for name, deletes := range s.garbage {
		if deletes == by {
			names = append(names, name)
		}
	}
	s.mu.Unlock()
	for _, name := range names {
		if err := s.discard(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// discard deletes a revision unless it is needed again.
func (s *Stages) discard(ctx context.Context, name string) error {
	s.storing.Lock()
	defer s.storing.Unlock()
	if !s.needless(name) {
		return nil
	}
	if err := s.shelf.delete(ctx, []revision{{name: name}}); err != nil {
		return err
	}
	s.spare(name)
	return nil
}

func (s *Stages) needless(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, is := s.garbage[name]
	return is
}

// spare says that a revision is not to be deleted any more.
func (s *Stages) spare(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.garbage, name)
}
