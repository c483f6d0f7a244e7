// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// sweepEvery is how often the revisions of rollouts that are gone are looked for, and
	// sweepMost how long they are deleted then: the rest has its turn next time.
	sweepEvery = 10 * time.Second
	sweepMost  = 30 * time.Second
	// sweepRollouts is of how many rollouts revisions are deleted at a time: API servers look at
	// all revisions to find those of some.
	sweepRollouts = 100
)

// RevisionSweeper deletes the revisions of rollouts that are gone. It is a runnable of a manager.
type RevisionSweeper struct{ Stages *Stages }

// Start deletes the revisions of rollouts that are gone until the context ends. It does so aside,
// as there may be thousands: neither what is to be sent nor other rollouts wait for it.
func (w RevisionSweeper) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := w.sweepRevisions(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Revisions of rollouts that are gone are not deleted yet")
		}
	}, sweepEvery)
	return nil
}

// sweepRevisions deletes the revisions of rollouts that are gone.
func (w RevisionSweeper) sweepRevisions(ctx context.Context) error {
	s := w.Stages
	ctx, cancel := context.WithTimeout(ctx, sweepMost)
	defer cancel()
	s.storing.Lock() // whoever stores one of a rollout that has ended is done, and nobody begins
	s.mu.Lock()
	ended := slices.Collect(maps.Keys(s.ended))
	s.mu.Unlock()
	s.storing.Unlock()
	failed := s.dropGarbage(ctx, types.NamespacedName{})
	for some := range slices.Chunk(ended, sweepRollouts) {
		if err := s.shelf.clearRollouts(ctx, some); err != nil {
			return errors.Join(failed, err)
		}
		s.mu.Lock()
		for _, rollout := range some {
			delete(s.ended, rollout)
		}
		s.mu.Unlock()
	}
	return failed
}

// garbage are the names of revisions that are to be deleted, by the binding or the
// rollout that is tried again until they are, or by none for the RevisionSweeper. One that stays would be taken later
// for what clusters have.
type garbage map[string]types.NamespacedName

func (g garbage) addRevisions(by types.NamespacedName, revisions []revision) {
	for _, r := range revisions {
		g[r.name] = by
	}
}

// dropGarbage deletes the revisions that a binding or a rollout is to delete.
func (s *Stages) dropGarbage(ctx context.Context, by types.NamespacedName) error {
	s.mu.Lock()
	var names []string
	for name, deletes := range s.garbage {
		if deletes == by {
			names = append(names, name)
		}
	}
	s.mu.Unlock()
	for _, name := range names {
		if err := s.discardRevision(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// discardRevision deletes a revision unless it is needed again.
func (s *Stages) discardRevision(ctx context.Context, name string) error {
	s.storing.Lock()
	defer s.storing.Unlock()
	s.mu.Lock()
	_, needless := s.garbage[name]
	s.mu.Unlock()
	if !needless {
		return nil
	}
	if err := s.shelf.deleteRevisions(ctx, []revision{{name: name}}); err != nil {
		return err
	}
	s.spareRevision(name)
	return nil
}

// spareRevision says that a revision is not to be deleted any more.
func (s *Stages) spareRevision(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.garbage, name)
}
