// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package decide chooses clusters for bindings, and writes down what was chosen.
package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/propagation/decision"
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
	groups        *affinityGroups
}

// DeciderOptions are what a Decider is made with.
type DeciderOptions struct {
	Fleet *fleet.Fleet
	Clock clock.PassiveClock
	// Groups says that workloads are kept together or apart as their bindings say.
	Groups bool
}

// NewDecider returns a Decider.
func NewDecider(o DeciderOptions) *Decider {
	return &Decider{
		fleet: o.Fleet, clock: o.Clock, compiled: memo.NewMemo[compiledPlacement](compiledBytesMax), assumed: newAssumptions(),
		refusals: newRefusals(o.Clock), groups: &affinityGroups{on: o.Groups},
	}
}

// BindingDecision is what was decided for a binding.
type BindingDecision struct {
	decision binding.SchedulingDecision
	// anew says that clusters were chosen, or tried to be: or else what had been
	// chosen was confirmed.
	anew bool
}

// DeniedDecision is the outcome for a binding whose clusters admission has refused.
func DeniedDecision(err error) BindingDecision {
	return BindingDecision{decision: binding.SchedulingDecision{Reason: workv1alpha2.BindingReasonQuotaExceeded, Message: err.Error()}}
}

// RecordRefusal notes that admission has refused the clusters of a binding. It is decided
// for it again when it asks for something else, or after a while.
func (d *Decider) RecordRefusal(b workv1alpha2.Binding) { d.refusals.addRefusal(b) }

// RefusalBackoff is how long to wait before it is decided again for a binding whose clusters
// were refused; 0 if they were not.
func (d *Decider) RefusalBackoff(b workv1alpha2.Binding) time.Duration {
	return d.refusals.refusalWait(b)
}

// FreedBindings returns the bindings of a namespace to decide for again now that others
// take less of what their clusters were refused for, and how soon.
func (d *Decider) FreedBindings(namespace string) map[types.NamespacedName]time.Duration {
	return d.refusals.freedBindings(namespace)
}

// DecideBinding chooses clusters for a binding if that is needed, and makes the binding
// say what was decided, but for its status. It reports whether the status has to be
// written, too (ReportDecision): once the binding has been.
func (d *Decider) DecideBinding(b workv1alpha2.Binding) (outcome BindingDecision, news bool, err error) {
	fleet := d.fleet.Snapshot()
	schedule := d.decideSchedule(b, fleet)
	status := b.BindingStatus()
	switch schedule.Code {
	case decision.Chosen:
	case decision.Kept:
		scheduled := meta.FindStatusCondition(status.Conditions, workv1alpha2.BindingConditionScheduled)
		confirmed := binding.SchedulingDecision{
			Scheduled: true, Affinity: status.SchedulerObservedAffinityName,
			Reason: scheduled.Reason, Message: scheduled.Message,
		}
		return BindingDecision{decision: confirmed}, status.SchedulerObservedGeneration != b.GetGeneration(), nil
	default:
		return BindingDecision{}, false, nil
	}
	state := schedule.State
	placement, err := json.Marshal(b.BindingSpec().Placement)
	if err != nil {
		return BindingDecision{}, false, fmt.Errorf("encoding the placement of binding %q: %w", b.GetName(), err)
	}
	ready := d.prepareDecision(fleet, state.PlacementInput, string(placement))
	chosen := d.groups.decideAmongGroups(b, d.clock.Now(), func(n scheduler.Neighbours) binding.SchedulingDecision {
		ready.in.Neighbours = n
		return d.decidePrepared(fleet, ready)
	})
	changed := binding.RecordDecision(b, chosen, string(placement))
	return BindingDecision{decision: chosen, anew: true}, changed || state.Triggered() || !isDecisionReported(b, chosen) || d.isConfirmationDue(b), nil
}

// decideSchedule decides whether the clusters of a binding are chosen now.
func (d *Decider) decideSchedule(b workv1alpha2.Binding, fleet view.Fleet) decision.ScheduleDecision {
	return decision.DecideSchedule(decision.ScheduleFacts{Binding: b, Fleet: fleet, Refused: d.RefusalBackoff(b) > 0})
}

// isDecisionReported reports whether the status of the binding says the decision.
func isDecisionReported(b workv1alpha2.Binding, chosen binding.SchedulingDecision) bool {
	status := b.BindingStatus()
	scheduled := meta.FindStatusCondition(status.Conditions, workv1alpha2.BindingConditionScheduled)
	return scheduled != nil && scheduled.Reason == chosen.Reason && scheduled.Message == chosen.Message &&
		status.SchedulerObservedGeneration == b.GetGeneration() && (!chosen.ClustersChosen() || status.SchedulerObservedAffinityName == chosen.Affinity)
}

// preparedDecision is an object with all that is found out about it before anybody waits for its decision.
type preparedDecision struct {
	compiled binding.CompiledPlacement
	problems field.ErrorList
	in       binding.PlacementInput
	placed   placedInput
}

// prepareDecision reads a placement, which is given as JSON, too, and counts the room that there is.
func (d *Decider) prepareDecision(fleet view.Fleet, in binding.PlacementInput, placement string) preparedDecision {
	compiled, problems := d.compile(in.Placement, placement)
	if problems = slices.Concat(problems, in.CheckRequests()); len(problems) > 0 {
		return preparedDecision{problems: problems, in: in}
	}
	return preparedDecision{compiled: compiled, in: compiled.CountRoom(fleet, in), placed: placedInputOf(fleet, in)}
}

// decidePrepared chooses clusters.
func (d *Decider) decidePrepared(fleet view.Fleet, ready preparedDecision) binding.SchedulingDecision {
	in := ready.in
	if len(ready.problems) > 0 {
		return binding.SchedulingDecision{
			Clusters: in.Previous, Affinity: in.ObservedAffinity,
			Reason: workv1alpha2.BindingReasonSchedulerError, Message: ready.problems.ToAggregate().Error(),
		}
	}
	now := d.clock.Now()
	if !dividesByRoom(in.Placement) {
		return ready.compiled.DecideClusters(fleet, in, now)
	}
	d.room.Lock()
	defer d.room.Unlock()
	var chosen binding.SchedulingDecision
	d.assumed.decideWithAssumptions(ready.placed, now, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
		in.Assumed = uses
		chosen = ready.compiled.DecideClusters(fleet, in, now)
		return chosen.Clusters, chosen.ClustersChosen()
	})
	return chosen
}

// ReportDecision makes the status of the binding, in the generation that it has, say what
// was decided.
func (d *Decider) ReportDecision(b workv1alpha2.Binding, outcome BindingDecision) {
	status := b.BindingStatus()
	now := metav1.NewTime(d.clock.Now())
	chosen := outcome.decision
	condition := metav1.Condition{
		Type: workv1alpha2.BindingConditionScheduled, Status: metav1.ConditionFalse, Reason: chosen.Reason, Message: chosen.Message,
	}
	if chosen.Scheduled {
		d.refusals.forgetRefusal(bindingKey(b))
		condition.Status = metav1.ConditionTrue
	}
	if chosen.ClustersChosen() {
		if outcome.anew {
			status.LastScheduledTime = &now
		}
		status.SchedulerObservedAffinityName = chosen.Affinity
	}
	status.SchedulerObservedGeneration = b.GetGeneration()
	conditions.SetCondition(&status.Conditions, b.GetGeneration(), condition)
}
