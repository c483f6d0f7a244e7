// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/propagation/staged"
)

// noGeneration is that of a rollout of which no spec was taken in with the objects that it is about.
const noGeneration = -1

// PlaceRollout has a rollout that is new take its place, so that what it is about is kept from clusters, and
// returns after how long SetRollout may take in its spec, as those of the namespace have had their share
// of the time; 0 if it may now, or has. It takes the place of an earlier one of its name then, if that has objects.
func (s *Stages) PlaceRollout(r Rollout) (later time.Duration) {
	key := client.ObjectKeyFromObject(r)
	e := s.lookupEntry(key)
	if e == nil || e.uid != r.GetUID() {
		if later := s.leaveDelay(key); later > 0 {
			return later
		}
		e = s.placeRollout(r, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.generation == r.GetGeneration() {
		return 0
	}
	return max(0, s.rests[key.Namespace].Sub(s.Clock.Now()))
}

// placeRollout returns the entry of a rollout. One that is new, or about something else than before, gets
// another one, which is about no object yet; all that comes into it is staged.
func (s *Stages) placeRollout(r Rollout, revisions map[types.NamespacedName]history) *rolloutEntry {
	key := client.ObjectKeyFromObject(r)
	e := s.lookupEntry(key)
	if e != nil && e.uid == r.GetUID() && e.of == targetOf(r) {
		return e
	}
	if e != nil {
		s.removeRollout(key, e.uid != r.GetUID())
	}
	e = newRolloutEntry(r, revisions)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = e
	delete(s.ended, e.uid) // the cache shows it later than its revisions
	s.targets[e.of] = append(s.targets[e.of], key)
	slices.SortFunc(s.targets[e.of], func(a, b RolloutKey) int {
		return compareRollouts(a, b, s.entries[a].created, s.entries[b].created)
	})
	e.setPlan(r, compilePlan(r))
	return e
}

// compilePlan returns what a rollout says. Whoever writes the status tells of mistakes.
func compilePlan(r Rollout) staged.Plan {
	plan, _ := staged.CompilePlan(r.RolloutSpec())
	return plan
}

// setPlan takes in what a rollout says of its stages, and of what is undone. The caller has the lock.
func (e *rolloutEntry) setPlan(r Rollout, plan staged.Plan) {
	e.rollout.SetPlan(plan)
	e.outcome.Done = false
	undo := int64(0)
	if r.RolloutSpec().Undo != nil {
		undo = *r.RolloutSpec().Undo
	}
	e.undo, e.settled = undo, e.settled && undo == e.undo
}

// restSince has the specs of the namespace of a rollout rest, after something that took as long as from then until
// now. The caller has the lock.
func (s *Stages) restSince(key RolloutKey, begun time.Time) {
	ended := s.Clock.Now()
	s.rests.beginRest(key.Namespace, ended.Sub(begun), ended)
}

// memberBinding is a binding that may be of a rollout.
type memberBinding struct {
	name    types.NamespacedName
	targets []rolloutTarget
}

// takeSpec takes in the spec of a rollout, and has its objects looked at. There may be many, and others
// wait while they are gone through.
func (s *Stages) takeSpec(e *rolloutEntry, r Rollout, bindings []Binding) {
	plan := compilePlan(r)
	members := make([]memberBinding, 0, len(bindings))
	for _, b := range bindings {
		members = append(members, memberBinding{name: client.ObjectKeyFromObject(b), targets: targetsOf(b)})
	}
	for _, member := range s.joinMembers(e, r, plan, members) {
		s.Touched(member.name)
	}
}

// joinMembers takes in the spec of a rollout, and returns the objects that it is about: none if they are
// another's.
func (s *Stages) joinMembers(e *rolloutEntry, r Rollout, plan staged.Plan, members []memberBinding) []memberBinding {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.restSince(e.key, s.Clock.Now())
	e.setPlan(r, plan)
	first := e.generation == noGeneration
	e.generation = r.GetGeneration()
	if keys := s.targets[e.of]; len(keys) == 0 || keys[0] != e.key {
		members = nil // they are another's
	}
	for _, member := range members {
		if s.governingEntry(member.targets) == e { // it is looked at next, and leaves if it has no right to be here
			s.joinRollout(member.name, e)
			e.rollout.ExpectObject(member.name.String())
		}
	}
	if !first {
		return members
	}
	for name, revisions := range e.history { // of objects that left it while nobody looked
		if !e.members[name] {
			s.garbage.addRevisions(e.key, revisions)
			delete(e.history, name)
		}
	}
	return members
}
