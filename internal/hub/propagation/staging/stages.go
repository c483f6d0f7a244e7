// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/hub/propagation/turns"
	"github.com/capstan-io/capstan/internal/propagation/staged"
)

// +kubebuilder:rbac:groups=fleet.capstan.io,resources=propagationrevisions,verbs=get;list;create;delete;deletecollection

// RolloutKey names a rollout; one without a namespace is a ClusterPropagationRollout.
type RolloutKey = types.NamespacedName

// Binding is a binding that a client knows.
type Binding interface {
	workv1alpha2.Binding
	client.Object
}

// Rollout is a PropagationRollout or a ClusterPropagationRollout.
type Rollout interface {
	fleetv1alpha1.Rollout
	client.Object
}

// StageDeps are what Stages work with.
type StageDeps struct {
	// Client reads from a cache, and Live from the API server.
	Client client.Client
	Live   client.Reader
	Fleet  *fleet.Fleet
	Clock  clock.PassiveClock
	// Turns are those of bindings whose overrides change documents.
	Turns *turns.Turns
	// Touched is told of bindings that are to be looked at, and Changed of rollouts.
	Touched func(binding types.NamespacedName)
	Changed func(rollout RolloutKey)
}

// Stages are those of all rollouts. They are safe for concurrent use.
type Stages struct {
	StageDeps

	loading sync.Mutex // while rollouts are read at the start
	mu      sync.Mutex
	loaded  bool
	entries map[RolloutKey]*rolloutEntry
	// targets has the rollouts by what they are of, the oldest first.
	targets map[rolloutTarget][]RolloutKey
	// governed has the rollouts of bindings.
	governed map[types.NamespacedName]RolloutKey
	rests    namespaceRests
	// garbage are revisions that nobody needs any more, and who deletes them; ended are the
	// rollouts that are gone, of which the RevisionSweeper deletes all.
	garbage garbage
	ended   map[types.UID]bool
	shelf   *revisionStore
	storing sync.RWMutex // for writing while a revision is deleted that may be needed again
}

// rolloutEntry is a rollout.
type rolloutEntry struct {
	key        RolloutKey
	uid        types.UID
	of         rolloutTarget
	created    metav1.Time
	undo       int64
	settled    bool  // all was done since undo is so: it is about nothing that comes later
	generation int64 // that was taken in
	last       int64 // the number of the latest revision
	// members are the bindings that Stages.governed has as its own.
	members map[types.NamespacedName]bool
	rollout *staged.RolloutProgress
	outcome staged.RolloutOutcome
	history map[types.NamespacedName]history
	// undone are objects whose change is, and since when; waiting are those that have
	// something to do when all is done.
	undone  map[types.NamespacedName]time.Time
	waiting map[types.NamespacedName]bool
}

// NewStages returns the stages of no rollouts.
func NewStages(d StageDeps) *Stages {
	return &Stages{
		StageDeps: d, entries: map[RolloutKey]*rolloutEntry{}, targets: map[rolloutTarget][]RolloutKey{}, governed: map[types.NamespacedName]RolloutKey{}, garbage: newGarbage(),
		ended: map[types.UID]bool{}, rests: namespaceRests{}, shelf: newRevisionStore(d),
	}
}

// LoadRollouts reads the rollouts that there are, once, before anything is sent.
func (s *Stages) LoadRollouts(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.loaded {
		return nil
	}
	own := &fleetv1alpha1.PropagationRolloutList{}
	wide := &fleetv1alpha1.ClusterPropagationRolloutList{}
	for _, list := range []client.ObjectList{own, wide} {
		if err := s.Client.List(ctx, list); err != nil {
			return fmt.Errorf("reading the rollouts of the hub: %w", err)
		}
	}
	var all []Rollout
	for i := range own.Items {
		all = append(all, &own.Items[i])
	}
	for i := range wide.Items {
		all = append(all, &wide.Items[i])
	}
	slices.SortFunc(all, func(a, b Rollout) int { // those that others wait for come first
		return compareRollouts(client.ObjectKeyFromObject(a), client.ObjectKeyFromObject(b), a.GetCreationTimestamp(), b.GetCreationTimestamp())
	})
	revisions, err := s.shelf.readRevisions(ctx)
	if err != nil {
		return err
	}
	members, err := s.membersByTarget(ctx)
	if err != nil {
		return err
	}
	of := func(_ context.Context, t rolloutTarget) ([]Binding, error) { return members[t], nil }
	for _, r := range all {
		if err := s.setRollout(ctx, r, of, revisions[r.GetUID()]); err != nil {
			return err
		}
		delete(revisions, r.GetUID())
	}
	s.markOrphans(revisions)
	s.loaded = true
	return nil
}

// markOrphans has the revisions deleted of rollouts that went while nobody looked.
func (s *Stages) markOrphans(revisions map[types.UID]map[types.NamespacedName]history) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rollout, of := range revisions {
		if rollout != "" {
			s.ended[rollout] = true
			continue
		}
		for _, each := range of { // no label finds them
			s.garbage.addRevisions(types.NamespacedName{}, each)
		}
	}
}

// SetRollout takes in what a rollout says, if it says something else now, and has its
// objects looked at. One that comes has no revisions yet.
func (s *Stages) SetRollout(ctx context.Context, r Rollout) error {
	return s.setRollout(ctx, r, s.listMembers, nil)
}

func (s *Stages) setRollout(
	ctx context.Context, r Rollout, members func(context.Context, rolloutTarget) ([]Binding, error), revisions map[types.NamespacedName]history,
) error {
	key := client.ObjectKeyFromObject(r)
	e := s.placeRollout(r, revisions)
	if e.generation == r.GetGeneration() {
		return s.dropGarbage(ctx, key)
	}
	about, err := members(ctx, targetOf(r))
	if err != nil {
		return err
	}
	s.takeSpec(e, r, about)
	return s.dropGarbage(ctx, key)
}

// newRolloutEntry returns the entry of a rollout that was not known.
func newRolloutEntry(r Rollout, revisions map[types.NamespacedName]history) *rolloutEntry {
	if revisions == nil {
		revisions = map[types.NamespacedName]history{}
	}
	e := &rolloutEntry{
		key: client.ObjectKeyFromObject(r), uid: r.GetUID(), of: targetOf(r), created: r.GetCreationTimestamp(), generation: noGeneration,
		last: r.RolloutStatus().Revision, members: map[types.NamespacedName]bool{}, history: revisions, rollout: staged.NewRolloutProgress(staged.Plan{}), undone: map[types.NamespacedName]time.Time{}, waiting: map[types.NamespacedName]bool{},
	}
	for _, each := range revisions {
		e.last = max(e.last, each[len(each)-1].number)
	}
	return e
}

// compareRollouts compares rollouts: of those that are of the same the earliest counts.
func compareRollouts(a, b RolloutKey, since, other metav1.Time) int {
	return cmp.Or(since.Compare(other.Time), cmp.Compare(a.Name, b.Name))
}

// RemoveRollout forgets a rollout that is gone, and returns 0. What it kept from clusters is sent to them, and the
// Sweeper deletes its revisions. If rollouts of the namespace have had their share of the time, it returns after how
// long to ask again, and keeps its objects until then.
func (s *Stages) RemoveRollout(key RolloutKey) (later time.Duration) {
	if later := s.leaveDelay(key); later > 0 {
		return later
	}
	s.removeRollout(key, true)
	return 0
}

// leaveDelay returns after how long a rollout may leave its objects to others, which takes long if there are many; 0 if it has
// none.
func (s *Stages) leaveDelay(key RolloutKey) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[key]; e == nil || len(e.members) == 0 {
		return 0
	}
	return max(0, s.rests[key.Namespace].Sub(s.Clock.Now()))
}

// removeRollout forgets a rollout, which has ended or is about something else now. There may be many
// objects, and nobody waits while these are told.
func (s *Stages) removeRollout(key RolloutKey, ended bool) {
	members, waited := s.detachRollout(key, ended)
	for name := range members {
		s.Touched(name)
	}
	for _, other := range waited {
		s.Changed(other)
	}
}

// detachRollout forgets a rollout, and returns its objects and the other rollouts of the same that waited for it, of which
// the first takes them over.
func (s *Stages) detachRollout(key RolloutKey, ended bool) (members map[types.NamespacedName]bool, waited []RolloutKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e == nil { // it was about something else before, and went before it was taken in again: nobody tries again
		s.garbage.leaveToSweeper(key)
		return nil, nil
	}
	defer s.restSince(key, s.Clock.Now())
	delete(s.entries, key)
	first := s.targets[e.of][0] == key
	next := slices.DeleteFunc(s.targets[e.of], func(k RolloutKey) bool { return k == key })
	if s.targets[e.of] = next; len(next) == 0 {
		delete(s.targets, e.of)
	}
	if first {
		waited = slices.Clone(next)
	}
	if ended {
		s.ended[e.uid] = true
		s.garbage.forgetRevisions(key) // they are among them
	} else {
		for _, each := range e.history {
			s.garbage.addRevisions(key, each)
		}
	}
	for name := range e.members {
		delete(s.governed, name)
		if len(next) > 0 {
			s.governed[name] = next[0]
			s.entries[next[0]].members[name] = true
			s.entries[next[0]].rollout.ExpectObject(name.String())
		}
	}
	return e.members, waited
}

func (s *Stages) lookupEntry(key RolloutKey) *rolloutEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[key]
}

// governingEntry returns the rollout of what has these targets, nil if there is none. The
// caller has the lock.
func (s *Stages) governingEntry(targets []rolloutTarget) *rolloutEntry {
	for _, of := range targets {
		if keys := s.targets[of]; len(keys) > 0 {
			return s.entries[keys[0]]
		}
	}
	return nil
}

// joinRollout says that a binding is of a rollout, nil for none, and of no other any more.
// The caller has the lock.
func (s *Stages) joinRollout(name types.NamespacedName, e *rolloutEntry) {
	before, was := s.governed[name]
	if was && (e == nil || before != e.key) {
		if old := s.entries[before]; old != nil {
			s.garbage.addRevisions(name, old.history[name])
			old.rollout.ForgetObject(name.String())
			delete(old.members, name)
			delete(old.history, name)
			delete(old.undone, name)
			delete(old.waiting, name)
			s.Changed(before)
		}
		delete(s.governed, name)
	}
	if e != nil {
		s.governed[name] = e.key
		e.members[name] = true
	}
}

// MarkNothingSent says that a binding was looked at and sends nothing.
func (s *Stages) MarkNothingSent(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[s.governed[name]]; e != nil && e.rollout.MarkObserved(name.String()) {
		e.newsCame(s.Changed)
	}
}

// ForgetBinding says that a binding does not exist any more.
func (s *Stages) ForgetBinding(ctx context.Context, name types.NamespacedName) error {
	s.mu.Lock()
	s.joinRollout(name, nil)
	s.mu.Unlock()
	return s.dropGarbage(ctx, name)
}
