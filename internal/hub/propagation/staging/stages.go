// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	rollout    *staged.RolloutProgress
	outcome    staged.RolloutOutcome
	history    map[types.NamespacedName]history
	// undone are objects whose change is, and since when; waiting are those that have
	// something to do when all is done.
	undone  map[types.NamespacedName]time.Time
	waiting map[types.NamespacedName]bool
}

// NewStages returns the stages of no rollouts.
func NewStages(d StageDeps) *Stages {
	return &Stages{
		StageDeps: d, entries: map[RolloutKey]*rolloutEntry{}, targets: map[rolloutTarget][]RolloutKey{}, governed: map[types.NamespacedName]RolloutKey{}, garbage: garbage{},
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
	e := s.lookupEntry(key)
	if e != nil && (e.uid != r.GetUID() || e.of != targetOf(r)) {
		s.removeRollout(key, e.uid != r.GetUID())
		e = nil
	}
	if e != nil && e.generation == r.GetGeneration() {
		return s.dropGarbage(ctx, key)
	}
	about, err := members(ctx, targetOf(r))
	if err != nil {
		return err
	}
	if e == nil {
		e = newRolloutEntry(r, revisions)
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
		key: client.ObjectKeyFromObject(r), uid: r.GetUID(), of: targetOf(r), created: r.GetCreationTimestamp(), last: r.RolloutStatus().Revision,
		history: revisions, rollout: staged.NewRolloutProgress(staged.Plan{}), undone: map[types.NamespacedName]time.Time{}, waiting: map[types.NamespacedName]bool{},
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

// RestBeforeSpec returns after how long SetRollout may take in another spec of a rollout that is known, as
// those of the namespace have had their share of the time; 0 if it may now.
func (s *Stages) RestBeforeSpec(r Rollout) time.Duration {
	key := client.ObjectKeyFromObject(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[key]; e == nil || e.uid != r.GetUID() || e.generation == r.GetGeneration() {
		return 0
	}
	return max(0, s.rests[key.Namespace].Sub(s.Clock.Now()))
}

// memberBinding is a binding that may be of a rollout.
type memberBinding struct {
	name    types.NamespacedName
	targets []rolloutTarget
}

// takeSpec takes in the spec of a rollout, and has its objects looked at. There may be many, and others
// wait while they are gone through.
func (s *Stages) takeSpec(e *rolloutEntry, r Rollout, bindings []Binding) {
	plan, _ := staged.CompilePlan(r.RolloutSpec()) // whoever writes the status tells of mistakes
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
	begun := s.Clock.Now()
	defer func() {
		ended := s.Clock.Now()
		s.rests.beginRest(e.key.Namespace, ended.Sub(begun), ended)
	}()
	first := s.entries[e.key] == nil
	if first {
		s.entries[e.key] = e
		delete(s.ended, e.uid) // the cache shows it later than its revisions
		s.targets[e.of] = append(s.targets[e.of], e.key)
		slices.SortFunc(s.targets[e.of], func(a, b RolloutKey) int {
			return compareRollouts(a, b, s.entries[a].created, s.entries[b].created)
		})
	}
	e.rollout.SetPlan(plan)
	e.outcome.Done = false
	e.generation = r.GetGeneration()
	undo := int64(0)
	if r.RolloutSpec().Undo != nil {
		undo = *r.RolloutSpec().Undo
	}
	e.undo, e.settled = undo, e.settled && undo == e.undo
	mine := map[types.NamespacedName]bool{}
	if s.targets[e.of][0] != e.key {
		members = nil // they are another's
	}
	for _, member := range members {
		if s.governingEntry(member.targets) == e { // it is looked at next, and leaves if it has no right to be here
			mine[member.name] = true
			s.joinRollout(member.name, e)
			e.rollout.ExpectObject(member.name.String())
		}
	}
	if !first {
		return members
	}
	for name, revisions := range e.history { // of objects that left it while nobody looked
		if !mine[name] {
			s.garbage.addRevisions(e.key, revisions)
			delete(e.history, name)
		}
	}
	return members
}

// RemoveRollout forgets a rollout that is gone. What it kept from clusters is sent to them, and the
// Sweeper deletes its revisions.
func (s *Stages) RemoveRollout(key RolloutKey) { s.removeRollout(key, true) }

// removeRollout forgets a rollout, which has ended or is about something else now.
func (s *Stages) removeRollout(key RolloutKey, ended bool) {
	s.mu.Lock()
	e := s.entries[key]
	if e == nil {
		for name, by := range s.garbage { // of one that was about something else before, and went before it was taken in again
			if by == key {
				s.garbage[name] = types.NamespacedName{} // nobody tries again
			}
		}
		s.mu.Unlock()
		return
	}
	delete(s.entries, key)
	if s.targets[e.of] = slices.DeleteFunc(s.targets[e.of], func(k RolloutKey) bool { return k == key }); len(s.targets[e.of]) == 0 {
		delete(s.targets, e.of)
	}
	next := slices.Clone(s.targets[e.of])
	if ended {
		s.ended[e.uid] = true
		maps.DeleteFunc(s.garbage, func(_ string, by types.NamespacedName) bool { return by == key }) // they are among them
	} else {
		for _, each := range e.history {
			s.garbage.addRevisions(key, each)
		}
	}
	for name, governor := range s.governed {
		if governor != key {
			continue
		}
		delete(s.governed, name)
		if len(next) > 0 { // which takes it over
			s.governed[name] = next[0]
			s.entries[next[0]].rollout.ExpectObject(name.String())
		}
		s.Touched(name)
	}
	s.mu.Unlock()
	for _, other := range next {
		s.Changed(other)
	}
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
			delete(old.history, name)
			delete(old.undone, name)
			delete(old.waiting, name)
			s.Changed(before)
		}
		delete(s.governed, name)
	}
	if e != nil {
		s.governed[name] = e.key
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
