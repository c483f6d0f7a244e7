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

// rests says until when nothing is decided about the rollouts of a namespace.
type rests map[string]time.Time

// begin lets others have their time after a decision about a rollout of a namespace.
func (r rests) begin(namespace string, took time.Duration, now time.Time) {
	maps.DeleteFunc(r, func(_ string, until time.Time) bool { return !until.After(now) })
	if took > 0 {
		r[namespace] = now.Add((decidingShare - 1) * took)
	}
}

// newsCame has it decided soon how a rollout goes on, once for all that is reported until
// then. Done is a rollout only by what has been decided about. The caller has the lock.
func (e *entry) newsCame(changed func(Key)) {
	e.outcome.Done = false
	changed(e.key)
}

// decide decides which clusters get the changes of a rollout now, and has the objects
// looked at which that is about. The caller has the lock.
func (s *Stages) decide(e *entry) {
	before := e.outcome
	e.outcome = e.rollout.Decide(s.Fleet.Snapshot(), s.Clock.Now())
	e.settled = e.settled || e.outcome.Done
	for name := range touching(e, before) {
		s.Touched(name)
	}
}

// Progress is how far a rollout is.
type Progress struct {
	staged.Outcome

	// Rival is the rollout that has the same target, and goes before this one.
	Rival *Key
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

// Progress decides anew how a rollout goes on, and returns how far it is; false if
// it is not known.
func (s *Stages) Progress(key Key) (Progress, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e == nil {
		return Progress{}, false
	}
	if first := s.targets[e.of][0]; first != key {
		return Progress{Rival: &first, Revision: e.last}, true
	}
	begun := s.Clock.Now()
	if later := s.rests[key.Namespace].Sub(begun); later > 0 {
		return Progress{Later: later}, true
	}
	s.decide(e)
	progress := Progress{
		Outcome: e.outcome, Revision: e.last, Objects: len(e.rollout.Objects()), Undone: len(e.undone), Held: e.rollout.Held(),
		Unstored: e.unstored(),
	}
	ended := s.Clock.Now()
	s.rests.begin(key.Namespace, ended.Sub(begun), ended)
	return progress, true
}

// unstored counts the objects with a revision that is not stored. The caller has the
// lock.
func (e *entry) unstored() int {
	n := 0
	for _, h := range e.history {
		if slices.ContainsFunc(h, func(r revision) bool { return !r.kept }) {
			n++
		}
	}
	return n
}

// OfPolicy returns the rollouts of a policy.
func (s *Stages) OfPolicy(policy types.NamespacedName) []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.targets[target{kind: policyKind(policy.Namespace), name: policy}])
}

// With returns the rollouts that send something to a cluster.
func (s *Stages) With(cluster string) []Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []Key
	for key, e := range s.entries {
		if e.rollout.Has(cluster) {
			keys = append(keys, key)
		}
	}
	return keys
}

// touching returns the objects that have something to do by what is decided now.
func touching(e *entry, before staged.Outcome) map[types.NamespacedName]bool {
	touched := map[types.NamespacedName]bool{}
	for _, name := range e.outcome.Touched {
		touched[nameOf(name)] = true
	}
	if e.outcome.Done && !before.Done {
		maps.Copy(touched, e.waiting)
	}
	return touched
}

// nameOf is the reverse of the name of a binding as text.
func nameOf(text string) types.NamespacedName {
	for i := range len(text) {
		if text[i] == types.Separator {
			return types.NamespacedName{Namespace: text[:i], Name: text[i+1:]}
		}
	}
	return types.NamespacedName{Name: text}
}
