// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// planFacts are what a plan is made of.
type planFacts struct {
	// Namespace is that of the replica set.
	Namespace string
	Choices   []choice
	// Works by cluster, the one to keep first.
	Works map[string][]*workv1.ManifestWork
	// Joined reports whether a cluster has a namespace for works.
	Joined map[string]bool
	// Foreign reports whether a cluster has a namespace that is not for its works.
	Foreign map[string]bool
	// Strangers are works of others that have the name of ours, by cluster.
	Strangers map[string]types.NamespacedName
	// Template is the hash of the template.
	Template string
	// Seen is how the controller saw the clusters with the template last.
	Seen map[string]rollout.ClusterState
	// Turns are the clusters that have had their turn to get the template, whatever their
	// works have now. Their members may change that back again and again: it is not their
	// turn each time, or it would never be that of others.
	Turns map[string]turn
	// Health is what the works have as annotation AnnotationReportHealth.
	Health string
	// Bytes are what a work takes up with the template, as package allowance counts.
	Bytes int64
	Now   time.Time
}

// rolloutPlan is what is to be written now, and why not more.
type rolloutPlan struct {
	Writes []workWrite
	// Gone are works to delete.
	Gone []*workv1.ManifestWork
	// Progress is about each Placement, in the order of the choices.
	Progress []progress
	// After is when to look again although nothing happens; zero is never.
	After time.Time
}

// workWrite is a work to create or to change.
type workWrite struct {
	Cluster, Placement string
	// Work is the one to change, nil to create one.
	Work *workv1.ManifestWork
	// Spec and Meta say what of it is to be changed.
	Spec, Meta bool
	// Repairs says that the work had the spec already, and somebody else has changed it.
	Repairs bool
	// Grows is how many bytes more the work takes up afterwards.
	Grows int64
}

// roomNeeded returns how much room has to be found until anything of it can be written.
func (w workWrite) roomNeeded() int64 {
	if w.Meta {
		return 0
	}
	return w.Grows
}

// progress is how far the clusters of a Placement are.
type progress struct {
	Choice   choice
	Decision rollout.ApplyDecision
	States   map[string]templateState
	// Absent are chosen clusters that have no namespace for works yet. They are no
	// part of the rollout.
	Absent []string
	// Foreign are chosen clusters whose namespace is not for their works: nobody who may
	// accept them has vouched for them, or it is being deleted. They are no part of the
	// rollout either.
	Foreign []string
}

// planWrites decides what is to be written now.
func planWrites(f planFacts) rolloutPlan {
	p := rolloutPlan{}
	wanted := map[string]bool{}
	for _, c := range f.Choices {
		part := f.progressOf(c)
		apply := map[string]bool{}
		for _, cluster := range part.Decision.Apply {
			apply[cluster] = true
		}
		for _, group := range c.Groups {
			for _, cluster := range group.Clusters {
				wanted[cluster] = true
				if w := f.planWrite(cluster, c.Placement, apply[cluster] || len(c.Problems) == 0 && f.hadTurn(cluster)); f.Joined[cluster] && (w.Spec || w.Meta) {
					p.Writes = append(p.Writes, w)
				}
			}
		}
		if after := part.Decision.After; !after.IsZero() && (p.After.IsZero() || after.Before(p.After)) {
			p.After = after
		}
		p.Progress = append(p.Progress, part)
	}
	p.Gone = f.surplusWorks(wanted)
	// Not all fit a pass: those that are held back for want of room come after those that are not.
	slices.SortStableFunc(p.Writes, func(a, b workWrite) int { return cmp.Compare(a.roomNeeded(), b.roomNeeded()) })
	return p
}

// progressOf decides how the rollout to the clusters of a Placement goes on.
func (f planFacts) progressOf(c choice) progress {
	p := progress{Choice: c, States: make(map[string]templateState, c.Clusters)}
	states := make(map[string]rollout.ClusterState, c.Clusters)
	groups := make([]rollout.ClusterGroup, 0, len(c.Groups))
	for _, group := range c.Groups {
		present := rollout.ClusterGroup{Name: group.Name}
		for _, cluster := range group.Clusters {
			if f.Foreign[cluster] {
				p.Foreign = append(p.Foreign, cluster)
				continue
			}
			if !f.Joined[cluster] {
				p.Absent = append(p.Absent, cluster)
				continue
			}
			present.Clusters = append(present.Clusters, cluster)
			s := f.clusterState(cluster)
			p.States[cluster] = s
			states[cluster] = s.ClusterState
		}
		groups = append(groups, present)
	}
	if len(c.Problems) == 0 {
		p.Decision = rollout.DecideRollout(groups, states, c.Strategy, f.Now)
	}
	return p
}

// clusterState returns how far a cluster is. One whose work cannot be created has
// failed, or others would wait for it for ever.
func (f planFacts) clusterState(cluster string) templateState {
	if stranger, blocked := f.Strangers[cluster]; blocked {
		return templateState{ClusterState: rollout.ClusterState{Status: rollout.Failed}, Why: foreignError{stranger}.Error()}
	}
	s := stateOfWork(f.firstWork(cluster), f.Template, f.Now)
	if s.Status == rollout.ToApply && f.hadTurn(cluster) {
		s.ClusterState = rollout.ClusterState{Status: rollout.Progressing, Since: f.Now}
	}
	s.ClusterState = s.ObservedSince(f.Seen[cluster], f.Now)
	return s
}

func (f planFacts) hadTurn(cluster string) bool {
	_, had := f.Turns[cluster]
	return had
}

func (f planFacts) firstWork(cluster string) *workv1.ManifestWork {
	if works := f.Works[cluster]; len(works) > 0 {
		return works[0]
	}
	return nil
}

// planWrite returns what is to be changed about the work of a cluster, whose turn
// it is or not to get the template.
func (f planFacts) planWrite(cluster, placement string, turn bool) workWrite {
	work := f.firstWork(cluster)
	w := workWrite{Cluster: cluster, Placement: placement, Work: work}
	switch {
	case work == nil:
		w.Spec = turn
		w.Grows = f.Bytes
	case !work.DeletionTimestamp.IsZero():
	default:
		w.Spec = turn && work.Annotations[keptHash] != f.Template && !f.Turns[cluster].isNotSeenYet(work)
		if w.Spec {
			w.Grows = max(0, f.Bytes-allowance.WorkBytes(work))
			w.Repairs = f.hadTurn(cluster)
		}
		w.Meta = work.Labels[workv1.LabelPlacementName] != placement || work.Annotations[workv1.AnnotationReportHealth] != f.Health
	}
	return w
}

// surplusWorks returns the works that are one too many for a cluster, and those of
// clusters that are not chosen. The latter stay while the decisions are
// incomplete, so that no cluster loses its work on a move, and while a Placement
// is missing, which may be a mistake.
func (f planFacts) surplusWorks(wanted map[string]bool) []*workv1.ManifestWork {
	certain := !slices.ContainsFunc(f.Choices, func(c choice) bool { return c.Missing || !c.Settled })
	var gone []*workv1.ManifestWork
	for _, cluster := range slices.Sorted(maps.Keys(f.Works)) {
		works := f.Works[cluster]
		if wanted[cluster] {
			works = works[1:]
		} else if !certain {
			continue
		}
		for _, work := range works {
			if work.DeletionTimestamp.IsZero() {
				gone = append(gone, work)
			}
		}
	}
	return gone
}

// blockedError says which works of others have the name of ours; nil for none.
func (f planFacts) blockedError() error {
	var errs []error
	for _, cluster := range slices.Sorted(maps.Keys(f.Strangers)) {
		errs = append(errs, foreignError{f.Strangers[cluster]})
	}
	return joinErrors(errs)
}

// requeueAfter returns after how long to look again although nothing happens; 0 is
// never. Of the work of somebody else that goes there is no event, and a
// namespace may have come since it was looked for.
func (p rolloutPlan) requeueAfter(f planFacts) time.Duration {
	var after time.Duration
	if !p.After.IsZero() {
		after = max(p.After.Sub(f.Now), time.Millisecond)
	}
	absent := slices.ContainsFunc(p.Progress, func(part progress) bool { return len(part.Absent)+len(part.Foreign) > 0 })
	if (absent || len(f.Strangers) > 0) && (after == 0 || after > blockedAgain) {
		return blockedAgain
	}
	return after
}
