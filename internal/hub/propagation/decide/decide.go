// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide chooses clusters for bindings, and writes down what was chosen.
package decide

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
	"github.com/capstan-io/capstan/internal/untrusted/memo"
)

// compiledBytesMax is how long the placements are together, as JSON, that are
// remembered: bindings of the same policy have the same one. Compiled they take a few
// times as much.
const compiledBytesMax = 4 << 20

// Decider chooses clusters. It is safe for concurrent use.
type Decider struct {
	fleet *fleet.Fleet
	clock clock.PassiveClock

	compiled *memo.Memo[compiledPlacement] // of placements as JSON
	// room is held while a decision by the room of clusters is made: the next one sees
	// what it took.
	room     sync.Mutex
	assumed  *assumptions
	refusals *refusals

	confirmations confirmations
	groups        *groups
}

// Options are what a Decider is made with.
type Options struct {
	Fleet *fleet.Fleet
	Clock clock.PassiveClock
	// Groups says that workloads are kept together or apart as their bindings say.
	Groups bool
}

// New returns a Decider.
func New(o Options) *Decider {
	return &Decider{
		fleet: o.Fleet, clock: o.Clock, compiled: memo.New[compiledPlacement](compiledBytesMax), assumed: newAssumptions(),
		refusals: newRefusals(o.Clock), groups: &groups{on: o.Groups},
	}
}

// Outcome is what was decided for a binding.
type Outcome struct {
	decision binding.Decision
	// anew says that clusters were chosen, or tried to be: or else what had been
	// chosen was confirmed.
	anew bool
}

// Denied is the outcome for a binding whose clusters admission has refused.
func Denied(err error) Outcome {
	return Outcome{decision: binding.Decision{Reason: workv1alpha2.BindingReasonQuotaExceeded, Message: err.Error()}}
}

// Refused notes that admission has refused the clusters of a binding. It is decided
// for it again when it asks for something else, or after a while.
func (d *Decider) Refused(b workv1alpha2.Binding) { d.refusals.add(b) }

// Wait is how long to wait before it is decided again for a binding whose clusters
// were refused; 0 if they were not.
func (d *Decider) Wait(b workv1alpha2.Binding) time.Duration { return d.refusals.wait(b) }

// Freed returns the bindings of a namespace to decide for again now that others
// take less of what their clusters were refused for, and how soon.
func (d *Decider) Freed(namespace string) map[types.NamespacedName]time.Duration {
	return d.refusals.freed(namespace)
}

// Decide chooses clusters for a binding if that is needed, and makes the binding
// say what was decided, but for its status. It tells whether the status has to be
// written, too (Report): once the binding has been.
func (d *Decider) Decide(b workv1alpha2.Binding) (outcome Outcome, news bool, err error) {
	if !binding.Ours(b) {
		return Outcome{}, false, nil
	}
	fleet := d.fleet.Snapshot()
	state := binding.StateOf(b)
	status := b.BindingStatus()
	if fleet.Len() == 0 && len(state.Previous) > 0 {
		return Outcome{}, false, nil // more is amiss than with this object, and what runs stays
	}
	scheduled := meta.FindStatusCondition(status.Conditions, workv1alpha2.BindingConditionScheduled)
	needed, _ := binding.Needs(fleet, state)
	if d.Wait(b) > 0 {
		return Outcome{}, false, nil
	}
	if !needed && meta.IsStatusConditionTrue(status.Conditions, workv1alpha2.BindingConditionScheduled) {
		confirmed := binding.Decision{
			Scheduled: true, Affinity: status.SchedulerObservedAffinityName,
			Reason: scheduled.Reason, Message: scheduled.Message,
		}
		return Outcome{decision: confirmed}, status.SchedulerObservedGeneration != b.GetGeneration(), nil
	}
	placement, err := json.Marshal(b.BindingSpec().Placement)
	if err != nil {
		return Outcome{}, false, fmt.Errorf("encoding the placement of binding %q: %w", b.GetName(), err)
	}
	decision := d.groups.during(b, d.clock.Now(), func(n scheduler.Neighbours) binding.Decision {
		state.Neighbours = n
		return d.decide(fleet, state.Input, string(placement))
	})
	changed := binding.Record(b, decision, string(placement))
	return Outcome{decision: decision, anew: true}, changed || state.Triggered() || !reported(b, decision) || d.confirms(b), nil
}

// reported tells whether the status of the binding says the decision.
func reported(b workv1alpha2.Binding, decision binding.Decision) bool {
	status := b.BindingStatus()
	scheduled := meta.FindStatusCondition(status.Conditions, workv1alpha2.BindingConditionScheduled)
	return scheduled != nil && scheduled.Reason == decision.Reason && scheduled.Message == decision.Message &&
		status.SchedulerObservedGeneration == b.GetGeneration() && (!decision.Chosen() || status.SchedulerObservedAffinityName == decision.Affinity)
}

// decide chooses clusters by a placement, which is given as JSON, too.
func (d *Decider) decide(fleet view.Fleet, in binding.Input, placement string) binding.Decision {
	compiled, problems := d.compile(in.Placement, placement)
	if len(problems) > 0 {
		return binding.Decision{
			Clusters: in.Previous, Affinity: in.ObservedAffinity,
			Reason: workv1alpha2.BindingReasonSchedulerError, Message: problems.ToAggregate().Error(),
		}
	}
	now := d.clock.Now()
	if !byRoom(in.Placement) {
		return compiled.Decide(fleet, in, now)
	}
	d.room.Lock()
	defer d.room.Unlock()
	var decision binding.Decision
	d.assumed.during(in, now, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
		in.Assumed = uses
		decision = compiled.Decide(fleet, in, now)
		return decision.Clusters, decision.Chosen()
	})
	return decision
}

// Report makes the status of the binding, in the generation that it has, say what
// was decided.
func (d *Decider) Report(b workv1alpha2.Binding, outcome Outcome) {
	status := b.BindingStatus()
	now := metav1.NewTime(d.clock.Now())
	decision := outcome.decision
	condition := metav1.Condition{
		Type: workv1alpha2.BindingConditionScheduled, Status: metav1.ConditionFalse, Reason: decision.Reason, Message: decision.Message,
	}
	if decision.Scheduled {
		d.refusals.forget(keyOf(b))
		condition.Status = metav1.ConditionTrue
	}
	if decision.Chosen() {
		if outcome.anew {
			status.LastScheduledTime = &now
		}
		status.SchedulerObservedAffinityName = decision.Affinity
	}
	status.SchedulerObservedGeneration = b.GetGeneration()
	conditions.Set(&status.Conditions, b.GetGeneration(), condition)
}
