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
	"k8s.io/apimachinery/pkg/util/sets"
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

// garbage are the names of revisions that are to be deleted. One that stays would be taken later for what clusters have. There
// may be very many, of a rollout that is about something else now, and each look at a binding asks for its own.
type garbage struct {
	// by has the binding or the rollout that is tried again until a revision is deleted, or none for the
	// RevisionSweeper, by the names of revisions; and of has these by that.
	by map[string]types.NamespacedName
	of map[types.NamespacedName]sets.Set[string]
}

func newGarbage() garbage {
	return garbage{by: map[string]types.NamespacedName{}, of: map[types.NamespacedName]sets.Set[string]{}}
}

func (g garbage) addRevisions(by types.NamespacedName, revisions []revision) {
	for _, r := range revisions {
		g.addName(by, r.name)
	}
}

func (g garbage) addName(by types.NamespacedName, name string) {
	g.removeName(name)
	g.by[name] = by
	if g.of[by] == nil {
		g.of[by] = sets.Set[string]{}
	}
	g.of[by].Insert(name)
}

func (g garbage) removeName(name string) {
	by, is := g.by[name]
	if !is {
		return
	}
	delete(g.by, name)
	if g.of[by].Delete(name); len(g.of[by]) == 0 {
		delete(g.of, by)
	}
}

// forgetRevisions has the revisions of somebody deleted by nobody.
func (g garbage) forgetRevisions(by types.NamespacedName) {
	for name := range g.of[by] {
		g.removeName(name)
	}
}

// leaveToSweeper has the revisions of somebody deleted by the RevisionSweeper.
func (g garbage) leaveToSweeper(by types.NamespacedName) {
	for name := range g.of[by] {
		g.addName(types.NamespacedName{}, name)
	}
}

// dropGarbage deletes the revisions that a binding or a rollout is to delete.
func (s *Stages) dropGarbage(ctx context.Context, by types.NamespacedName) error {
	s.mu.Lock()
	names := s.garbage.of[by].UnsortedList()
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
	_, needless := s.garbage.by[name]
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
	s.garbage.removeName(name)
}
