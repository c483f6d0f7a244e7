// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staged

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// ObjectState is how far an object is on a cluster.
type ObjectState struct {
	// Updated says that the cluster has the latest change of the object.
	Updated bool
	// State is how the object is with it; of one that is not updated, Failed says that
	// the cluster cannot get it.
	rollout.ClusterState
	// Unanswered says that the last answer of the cluster was good, and that it has not
	// answered since the object was changed in what is no change here, as the number of
	// replicas.
	Unanswered bool
	// Why says what has gone wrong.
	Why string
}

// ObjectProgress is how far an object is on its clusters.
type ObjectProgress struct {
	// Change names what the clusters are to get. Another one begins anew.
	Change string
	// Held says that nobody else is to get the change: it is to be undone, and there
	// is nothing from before.
	Held   bool
	States map[string]ObjectState
}

// RolloutProgress is how far the changes of some objects have come. It keeps what has been
// decided, and is not safe for concurrent use.
type RolloutProgress struct {
	plan    Plan
	objects map[string]ObjectProgress
	// awaited are objects that nobody has looked at yet.
	awaited map[string]bool
	// clusters has the objects by the clusters that they are sent to.
	clusters map[string]map[string]bool
	// granted are clusters that get changes now, and since when.
	granted map[string]time.Time
}

// NewRolloutProgress returns a rollout of objects that nobody has looked at yet.
func NewRolloutProgress(plan Plan, objects ...string) *RolloutProgress {
	r := &RolloutProgress{
		plan: plan, objects: map[string]ObjectProgress{}, awaited: map[string]bool{}, clusters: map[string]map[string]bool{},
		granted: map[string]time.Time{},
	}
	for _, name := range objects {
		r.awaited[name] = true
	}
	return r
}

// SetPlan changes the plan.
func (r *RolloutProgress) SetPlan(plan Plan) {
	r.plan = plan
	if plan.Paused {
		clear(r.granted)
	}
}

// ExpectObject says that there is an object that somebody has to look at.
func (r *RolloutProgress) ExpectObject(object string) {
	if _, known := r.objects[object]; !known {
		r.awaited[object] = true
	}
}

// MarkObserved says that somebody has looked at an object: if nothing was reported, it
// is not sent anywhere. It reports whether all objects have been looked at by this.
func (r *RolloutProgress) MarkObserved(object string) (last bool) {
	was := r.awaited[object]
	delete(r.awaited, object)
	return was && len(r.awaited) == 0
}

// ReportProgress says how far an object is, and reports whether that is something else than was
// known: only then can a decision be another one. The times of what has not succeeded are
// those of the change.
func (r *RolloutProgress) ReportProgress(name string, object ObjectProgress, now time.Time) (news bool) {
	before, known := r.objects[name]
	same := known && before.Change == object.Change
	if !same || object.Held { // also of an object that is new: what was granted is no turn for that
		clear(r.granted)
	}
	states := make(map[string]ObjectState, len(object.States))
	for cluster, state := range object.States {
		var was *ObjectState
		if state, is := before.States[cluster]; is && same {
			was = &state
		}
		states[cluster] = state.withObservedTime(was, now)
	}
	r.removeObject(name)
	r.objects[name] = ObjectProgress{Change: object.Change, Held: object.Held, States: states}
	for cluster := range states {
		if r.clusters[cluster] == nil {
			r.clusters[cluster] = map[string]bool{}
		}
		r.clusters[cluster][name] = true
	}
	return r.MarkObserved(name) || !same || before.Held != object.Held || !maps.EqualFunc(before.States, states, ObjectState.equalForDecision)
}

// equalForDecision compares states in what is decided by: the words of an error may be others each
// time.
func (s ObjectState) equalForDecision(other ObjectState) bool {
	since := s.Since.Equal(other.Since)
	s.Since = other.Since
	s.Why = other.Why
	return since && s == other
}

// withObservedTime returns the state with its time, given the one before; nil is none.
func (s ObjectState) withObservedTime(was *ObjectState, now time.Time) ObjectState {
	if !s.Updated {
		if was != nil && !was.Updated && s.Why == "" {
			return *was // what kept it from the change does so until it has it
		}
		return s
	}
	had := was != nil && was.Updated
	switch {
	case s.Unanswered && had && was.Status == rollout.Succeeded:
		return *was // until it says something else
	case had:
		s.ClusterState = s.ObservedSince(was.ClusterState, now)
	case s.Status == rollout.Succeeded:
		s.Since = now
	}
	return s
}

// ReportFailure says why a cluster that was to get an object did not. It reports whether that is
// something else than was known.
func (r *RolloutProgress) ReportFailure(name, cluster, why string) (news bool) {
	state, known := r.objects[name].States[cluster]
	if !known || state.Updated {
		return false
	}
	before := state
	state.Status = rollout.Failed
	state.Why = why
	r.objects[name].States[cluster] = state
	return !before.equalForDecision(state)
}

// ForgetObject forgets an object that is not rolled out any more.
func (r *RolloutProgress) ForgetObject(name string) {
	r.removeObject(name)
	r.MarkObserved(name)
}

func (r *RolloutProgress) removeObject(name string) {
	for cluster := range r.objects[name].States {
		if delete(r.clusters[cluster], name); len(r.clusters[cluster]) == 0 {
			delete(r.clusters, cluster)
		}
	}
	delete(r.objects, name)
}

// ObjectNames returns the names of the objects that were reported or are awaited.
func (r *RolloutProgress) ObjectNames() []string {
	names := maps.Clone(r.awaited)
	for name := range r.objects {
		names[name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// HeldObjectCount returns how many objects keep the changes of all from other clusters.
func (r *RolloutProgress) HeldObjectCount() int {
	held := 0
	for _, object := range r.objects {
		if object.Held {
			held++
		}
	}
	return held
}

// releaseHeld lets all go on from here.
func (r *RolloutProgress) releaseHeld() {
	for name, object := range r.objects {
		object.Held = false
		r.objects[name] = object
	}
}

// GrantedSince reports whether a cluster gets the changes of all objects now, and since when.
func (r *RolloutProgress) GrantedSince(cluster string) (since time.Time, may bool) {
	since, may = r.granted[cluster]
	return since, may
}

// HasCluster reports whether a cluster is sent some of the objects.
func (r *RolloutProgress) HasCluster(cluster string) bool { return r.clusters[cluster] != nil }

// RolloutOutcome is how far a rollout is.
type RolloutOutcome struct {
	// Starting says that objects have not been looked at yet; nothing else is known.
	Starting bool
	// Done says that all clusters have all changes and are healthy, but for those that may fail.
	Done bool
	// Stopped says why no other cluster gets a change: too many have failed.
	Stopped string
	// Granted are clusters that get changes from now on, and Touched the objects that have changes for them.
	Granted, Touched []string
	// Stage is the number from 1 of the group whose turn it is, of Stages with
	// clusters, and Group its name.
	Stage, Stages int
	Group         string
	// Counts are of clusters.
	Total, Pending, Healthy int
	// Failed says why clusters have failed, by cluster.
	Failed map[string]string
	// After is when to decide again although nothing happens; zero is never.
	After time.Time
}

// ProgressingCount returns how many clusters have all changes and are neither healthy
// nor failed.
func (o RolloutOutcome) ProgressingCount() int {
	return o.UpdatedCount() - o.Healthy - o.failedUpdated()
}

// UpdatedCount returns how many clusters have all changes.
func (o RolloutOutcome) UpdatedCount() int { return o.Total - o.Pending }

func (o RolloutOutcome) failedUpdated() int { return min(len(o.Failed), o.UpdatedCount()-o.Healthy) }

// DecideRollout decides which clusters get the changes from now on.
func (r *RolloutProgress) DecideRollout(fleet view.Fleet, now time.Time) RolloutOutcome {
	if len(r.awaited) > 0 {
		return RolloutOutcome{Starting: true}
	}
	groups := r.clusterGroups(fleet)
	paused := r.plan.Paused || r.HeldObjectCount() > 0
	states := make(map[string]rollout.ClusterState, len(r.clusters))
	out := RolloutOutcome{Stages: len(groups), Total: len(r.clusters), Failed: map[string]string{}}
	for cluster, objects := range r.clusters {
		pending := r.hasPendingChange(cluster, objects)
		if pending && paused {
			delete(r.granted, cluster)
		}
		if pending {
			out.Pending++
		} else {
			delete(r.granted, cluster)
		}
		states[cluster] = r.clusterState(cluster, objects, pending)
		if states[cluster].Status == rollout.Succeeded {
			out.Healthy++
		}
	}
	maps.DeleteFunc(r.granted, func(cluster string, _ time.Time) bool { return r.clusters[cluster] == nil })
	decision := rollout.DecideRollout(groups, states, r.plan.strategy, now)
	out.Done = decision.Done
	out.Stopped = decision.Stopped
	out.After = decision.After
	for _, cluster := range decision.Failed {
		out.Failed[cluster] = r.failureReason(cluster)
	}
	r.findCurrentStage(&out, groups, states, now)
	if out.Done {
		r.releaseHeld()
	}
	if paused {
		return out
	}
	touched := map[string]bool{}
	for _, cluster := range decision.Apply {
		r.granted[cluster] = now
		out.Granted = append(out.Granted, cluster)
		for name := range r.clusters[cluster] {
			if !r.objects[name].States[cluster].Updated {
				touched[name] = true
			}
		}
	}
	out.Touched = slices.Sorted(maps.Keys(touched))
	return out
}

// clusterGroups returns the clusters by their groups, without those that have none.
func (r *RolloutProgress) clusterGroups(fleet view.Fleet) []rollout.ClusterGroup {
	all := make([]rollout.ClusterGroup, len(r.plan.groups)+1)
	for _, name := range slices.Sorted(maps.Keys(r.clusters)) {
		cluster, found := fleet.ClusterNamed(name)
		if !found {
			cluster = view.Cluster{Name: name}
		}
		n, group := r.plan.GroupOfCluster(cluster)
		all[n].Name = group
		all[n].Clusters = append(all[n].Clusters, name)
	}
	return slices.DeleteFunc(all, func(g rollout.ClusterGroup) bool { return len(g.Clusters) == 0 })
}

// hasPendingChange reports whether a cluster does not have the latest change of some object.
func (r *RolloutProgress) hasPendingChange(cluster string, objects map[string]bool) bool {
	for name := range objects {
		if !r.objects[name].States[cluster].Updated {
			return true
		}
	}
	return false
}

// clusterState returns how far a cluster is with all its objects.
func (r *RolloutProgress) clusterState(cluster string, objects map[string]bool, pending bool) rollout.ClusterState {
	since, granted := r.granted[cluster]
	if pending && !granted {
		return rollout.ClusterState{Status: rollout.ToApply}
	}
	result := rollout.ClusterState{Status: rollout.Succeeded}
	for name := range objects {
		state := r.objects[name].States[cluster]
		switch {
		case !pending:
			result = worseState(result, state.ClusterState)
		case !state.Updated && state.Status == rollout.Failed:
			return rollout.ClusterState{Status: rollout.Failed, Since: since}
		}
	}
	if pending { // how it is with some of the changes says nothing yet
		return rollout.ClusterState{Status: rollout.Progressing, Since: since}
	}
	return result
}

// worseState returns the state of a cluster with two objects. What has gone wrong has
// done so since the first did; all is well since the last is.
func worseState(a, b rollout.ClusterState) rollout.ClusterState {
	rank := []rollout.ClusterStatus{rollout.Succeeded, rollout.Progressing, rollout.Failed}
	x := slices.Index(rank, a.Status)
	y := slices.Index(rank, b.Status)
	switch {
	case x > y:
		return a
	case y > x:
		return b
	}
	first := a
	last := b
	if b.Since.Before(a.Since) {
		first = b
		last = a
	}
	if a.Status == rollout.Succeeded {
		return last
	}
	return first
}

// failureReason says what has gone wrong in a cluster.
func (r *RolloutProgress) failureReason(cluster string) string {
	for _, name := range slices.Sorted(maps.Keys(r.clusters[cluster])) {
		state := r.objects[name].States[cluster]
		if state.Why != "" {
			return fmt.Sprintf("%s: %s", name, strings.TrimRight(state.Why, "."))
		}
		if state.Status != rollout.Succeeded {
			return name + " has not become healthy in time"
		}
	}
	return "it has not become healthy in time"
}

// findCurrentStage finds out which group it is the turn of: the first one with a cluster that
// is not done.
func (r *RolloutProgress) findCurrentStage(out *RolloutOutcome, groups []rollout.ClusterGroup, states map[string]rollout.ClusterState, now time.Time) {
	strategy := r.plan.strategy
	if most, err := intstr.GetScaledValueFromIntOrPercent(&strategy.MaxFailures, out.Total, false); err == nil {
		strategy.MaxFailures = intstr.FromInt(most) // of all clusters, not of these groups
	}
	for n, group := range groups {
		out.Stage = n + 1
		out.Group = group.Name
		if !rollout.DecideRollout(groups[:n+1], states, strategy, now).Done {
			return
		}
	}
}
