// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/propagation/staged"
)

// decidingShare is which part of the time is spent on decisions about the rollouts of one
// namespace at most: one of so many. A decision looks at all objects of a rollout and their
// clusters, and others wait for it meanwhile.
const decidingShare = 10

// namespaceRests says until when nothing is decided about the rollouts of a namespace.
type namespaceRests map[string]time.Time

// beginRest lets others have their time after a decision about a rollout of a namespace, or after
// its spec was taken in or it was forgotten. It ends no earlier rest.
func (r namespaceRests) beginRest(namespace string, took time.Duration, now time.Time) {
	maps.DeleteFunc(r, func(_ string, until time.Time) bool { return !until.After(now) })
	if until := now.Add((decidingShare - 1) * took); took > 0 && until.After(r[namespace]) {
		r[namespace] = until
	}
}

// newsCame has it decided soon how a rollout goes on, once for all that is reported until
// then. Done is a rollout only by what has been decided about. The caller has the lock.
func (e *rolloutEntry) newsCame(changed func(RolloutKey)) {
	e.outcome.Done = false
	changed(e.key)
}

// decideRollout decides which clusters get the changes of a rollout now, and has the objects
// looked at which that is about. The caller has the lock.
func (s *Stages) decideRollout(e *rolloutEntry) {
	before := e.outcome
	e.outcome = e.rollout.DecideRollout(s.Fleet.Snapshot(), s.Clock.Now())
	e.settled = e.settled || e.outcome.Done
	for name := range touchedBindings(e, before) {
		s.Touched(name)
	}
}

// RolloutProgress is how far a rollout is.
type RolloutProgress struct {
	staged.RolloutOutcome

	// Rival is the rollout that has the same target, and goes before this one.
	Rival *RolloutKey
	// Revision is the number of the latest change, and Objects how many objects there
	// are, of which the changes of so many are undone, and so many are to be, and there
	// is nothing from before.
	Revision              int64
	Objects, Undone, Held int
	// Unstored is of how many objects a revision is not stored, for want of room.
	Unstored int
	// Later is after how long to ask again, as decisions about the rollouts of the
	// namespace have had their share of the time; nothing else is known then.
	Later time.Duration
}

// DecideProgress decides anew how a rollout goes on, and returns how far it is; false if
// it is not known.
func (s *Stages) DecideProgress(key RolloutKey) (RolloutProgress, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e == nil {
		return RolloutProgress{}, false
	}
	if first := s.targets[e.of][0]; first != key {
		return RolloutProgress{Rival: &first, Revision: e.last}, true
	}
	begun := s.Clock.Now()
	if later := s.rests[key.Namespace].Sub(begun); later > 0 {
		return RolloutProgress{Later: later}, true
	}
	s.decideRollout(e)
	progress := RolloutProgress{
		RolloutOutcome: e.outcome, Revision: e.last, Objects: len(e.rollout.ObjectNames()), Undone: len(e.undone), Held: e.rollout.HeldObjectCount(),
		Unstored: e.countUnstored(),
	}
	s.restSince(key, begun)
	return progress, true
}

// countUnstored counts the objects with a revision that is not stored. The caller has the
// lock.
func (e *rolloutEntry) countUnstored() int {
	n := 0
	for _, h := range e.history {
		if slices.ContainsFunc(h, func(r revision) bool { return !r.kept }) {
			n++
		}
	}
	return n
}

// RolloutsOfPolicy returns the rollouts of a policy.
func (s *Stages) RolloutsOfPolicy(policy types.NamespacedName) []RolloutKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.targets[rolloutTarget{kind: policyKind(policy.Namespace), name: policy}])
}

// RolloutsOfCluster returns the rollouts that send something to a cluster.
func (s *Stages) RolloutsOfCluster(cluster string) []RolloutKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []RolloutKey
	for key, e := range s.entries {
		if e.rollout.HasCluster(cluster) {
			keys = append(keys, key)
		}
	}
	return keys
}

// touchedBindings returns the objects that have something to do by what is decided now.
func touchedBindings(e *rolloutEntry, before staged.RolloutOutcome) map[types.NamespacedName]bool {
	touched := map[types.NamespacedName]bool{}
	for _, name := range e.outcome.Touched {
		touched[parseBindingName(name)] = true
	}
	if e.outcome.Done && !before.Done {
		maps.Copy(touched, e.waiting)
	}
	return touched
}

// parseBindingName is the reverse of the name of a binding as text.
func parseBindingName(text string) types.NamespacedName {
	for i := range len(text) {
		if text[i] == types.Separator {
			return types.NamespacedName{Namespace: text[:i], Name: text[i+1:]}
		}
	}
	return types.NamespacedName{Name: text}
}
