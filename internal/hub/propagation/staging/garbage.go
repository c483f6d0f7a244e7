// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
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
	if err := s.delete(ctx, []revision{{name: name}}); err != nil {
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

// delete deletes revisions.
func (s *Stages) delete(ctx context.Context, gone []revision) error {
	for _, r := range gone {
		err := s.Client.Delete(ctx, &fleetv1alpha1.PropagationRevision{ObjectMeta: metav1.ObjectMeta{Name: r.name}})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting PropagationRevision %q: %w", r.name, err)
		}
	}
	return nil
}
