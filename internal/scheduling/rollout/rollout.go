// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"
)

// ClusterStatus is how far the change has come on a cluster.
type ClusterStatus string

// The statuses.
const (
	// ToApply is a cluster that does not have the change yet.
	ToApply ClusterStatus = "ToApply"
	// Progressing is a cluster that has the change and is not done.
	Progressing ClusterStatus = "Progressing"
	// Succeeded is a cluster where the change is done.
	Succeeded ClusterStatus = "Succeeded"
	// Failed is a cluster where the change has gone wrong.
	Failed ClusterStatus = "Failed"
	// TimedOut is a cluster that was not done before its deadline. Decide finds it
	// out; it is not for ClusterState.
	TimedOut ClusterStatus = "TimedOut"
)

// ClusterState is how far the change has come on a cluster, and since when.
type ClusterState struct {
	Status ClusterStatus
	Since  time.Time
}

// ObservedSince returns the state since when the hub has seen it, given the last one that it
// saw of the cluster with the same change, or the zero ClusterState. Members write the times of
// what they report, and one that wrote another time again and again would never have
// succeeded for long enough, nor failed. So what has not succeeded is as old as the first
// state of that kind, whatever has become of it, and nothing begins after now.
func (s ClusterState) ObservedSince(last ClusterState, now time.Time) ClusterState {
	switch {
	case last.Status == "" || last.Status == ToApply || s.Status == ToApply:
		if s.Since.After(now) {
			s.Since = now
		}
	case s.Status == last.Status, s.Status != Succeeded && last.Status != Succeeded:
		s.Since = last.Since
	default:
		s.Since = now
	}
	return s
}

// ClusterGroup is a group of clusters, in the order in which they are to be changed.
type ClusterGroup struct {
	Name     string
	Clusters []string
}

// ApplyDecision is what to do now.
type ApplyDecision struct {
	// Apply are the clusters that are to get the change now, in the order of the groups.
	Apply []string
	// Failed are the clusters that count against MaxFailures, in the order of the groups.
	Failed []string
	// Waiting is how many clusters are not to get the change yet.
	Waiting int
	// Proving are the clusters for which others wait although they have succeeded: not for
	// long enough yet. They are in the order of the groups.
	Proving []ProvingCluster
	// Done says that all clusters have succeeded, for as long as they have to, but
	// for those that may fail.
	Done bool
	// Stopped says why no other cluster gets the change until someone does
	// something: too many have failed. It is "" otherwise.
	Stopped string
	// After is when to look again although nothing happens; zero is never.
	After time.Time
}

// ProvingCluster is a cluster that has to go on to succeed until a time.
type ProvingCluster struct {
	Cluster string
	Until   time.Time
}

// DecideRollout says what to do now. Clusters without a state are ToApply.
func DecideRollout(groups []ClusterGroup, states map[string]ClusterState, strategy Strategy, now time.Time) ApplyDecision {
	d := &decider{strategy: strategy, states: states, now: now}
	for _, group := range groups {
		d.clusters += len(group.Clusters)
	}
	steps := d.planSteps(groups)
	d.result.Done = true
	for n, step := range steps {
		if d.takeStep(step) {
			continue
		}
		d.result.Done = false
		for _, later := range steps[n+1:] {
			d.skipStep(later)
		}
		break
	}
	return d.result
}

// step is clusters that may be changed next to each other.
type step struct {
	name        string
	clusters    []string
	concurrency int
	failuresMax int
}

// decider is one run of DecideRollout.
type decider struct {
	strategy Strategy
	states   map[string]ClusterState
	now      time.Time
	clusters int
	failures int // in the steps that are not mandatory
	result   ApplyDecision
}

// planSteps returns what is done one after the other.
func (d *decider) planSteps(groups []ClusterGroup) []step {
	if d.strategy.Kind == All {
		all := step{concurrency: d.clusters, failuresMax: d.clusters}
		for _, group := range groups {
			all.clusters = append(all.clusters, group.Clusters...)
		}
		return []step{all}
	}
	var steps []step
	mandatory := map[int]bool{}
	for _, ref := range d.strategy.Mandatory {
		for n, group := range groups {
			if ref.matchesGroup(n, group) && !mandatory[n] {
				mandatory[n] = true
				steps = append(steps, step{name: nameOf(n, group), clusters: group.Clusters, concurrency: len(group.Clusters)})
			}
		}
	}
	rest := step{concurrency: d.strategy.concurrency(d.clusters), failuresMax: d.strategy.failuresMax(d.clusters)}
	for n, group := range groups {
		switch {
		case mandatory[n]:
		case d.strategy.Kind == ProgressivePerGroup:
			steps = append(steps, step{
				name: nameOf(n, group), clusters: group.Clusters, concurrency: d.strategy.concurrency(len(group.Clusters)), failuresMax: rest.failuresMax,
			})
		default:
			rest.clusters = append(rest.clusters, group.Clusters...)
		}
	}
	if d.strategy.Kind == Progressive {
		steps = append(steps, rest)
	}
	return steps
}

func nameOf(index int, group ClusterGroup) string {
	if group.Name != "" {
		return fmt.Sprintf("group %s", group.Name)
	}
	return fmt.Sprintf("group %d", index)
}

// takeStep does what is to be done in a step, and reports whether the next may follow.
func (d *decider) takeStep(s step) bool {
	var waiting []string
	busy := 0
	failed := 0
	for _, name := range s.clusters {
		switch d.judgeCluster(name) {
		case ToApply:
			waiting = append(waiting, name)
		case Succeeded:
		case TimedOut, Failed:
			failed++
			d.result.Failed = append(d.result.Failed, name)
		case Progressing:
			busy++
			if state := d.states[name]; state.Status == Succeeded {
				d.result.Proving = append(d.result.Proving, ProvingCluster{Cluster: name, Until: state.Since.Add(d.strategy.MinSuccess)})
			}
		}
	}
	d.failures += failed
	if d.strategy.Kind != All && d.failures > s.failuresMax {
		d.result.Waiting += len(waiting)
		d.result.Stopped = stoppedMessage(s.name, d.failures, s.failuresMax)
		return false
	}
	n := min(len(waiting), max(0, s.concurrency-busy))
	d.result.Apply = append(d.result.Apply, waiting[:n]...)
	d.result.Waiting += len(waiting) - n
	if d.strategy.Kind == All {
		return busy+failed+len(waiting) == 0
	}
	return busy+len(waiting) == 0
}

func stoppedMessage(where string, failures, most int) string {
	if where != "" {
		where = " in " + where
	}
	return fmt.Sprintf("%d failed%s, and maxFailures allows %d", failures, where, most)
}

// skipStep counts the clusters of a step whose turn has not come. Those that have
// the change already, from when the groups were others, are left alone.
func (d *decider) skipStep(s step) {
	for _, name := range s.clusters {
		switch d.judgeCluster(name) {
		case ToApply:
			d.result.Waiting++
		case TimedOut, Failed:
			d.result.Failed = append(d.result.Failed, name)
		case Progressing, Succeeded:
		}
	}
}

// judgeCluster returns what a cluster counts as: one that fails or takes too long as
// TimedOut or Failed, and one that has not succeeded for long enough as Progressing.
func (d *decider) judgeCluster(name string) ClusterStatus {
	state, known := d.states[name]
	if !known {
		return ToApply
	}
	switch state.Status {
	case Succeeded:
		return d.statusUntil(state, d.strategy.MinSuccess, Progressing, Succeeded)
	case Progressing:
		if d.strategy.Deadline == nil {
			return Progressing
		}
		return d.statusUntil(state, *d.strategy.Deadline, Progressing, TimedOut)
	case Failed:
		if d.strategy.Deadline == nil {
			return Failed
		}
		return d.statusUntil(state, *d.strategy.Deadline, Progressing, TimedOut)
	case ToApply, TimedOut:
		return state.Status
	default:
		return ToApply
	}
}

// statusUntil returns one status until so long after the state began, and another
// then. It makes sure that someone looks then.
func (d *decider) statusUntil(state ClusterState, wait time.Duration, before, then ClusterStatus) ClusterStatus {
	end := state.Since.Add(wait)
	if !end.After(d.now) {
		return then
	}
	if d.result.After.IsZero() || end.Before(d.result.After) {
		d.result.After = end
	}
	return before
}
