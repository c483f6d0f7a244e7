// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"cmp"
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance/counting"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// newPropagationCollectors returns the metrics of what the controllers have in the cache, and of what
// the namespaces of bindings are allowed.
func newPropagationCollectors(from cache.Cache, allowed *allowance.Allowance) []prometheus.Collector {
	return []prometheus.Collector{
		metrics.NewComputedGauge(metrics.Definition{
			Name:   "capstan_propagation_rollouts",
			Help:   "Number of PropagationRollouts and ClusterPropagationRollouts by phase, which is the reason of their condition Complete: Starting, RollingOut, AllHealthy, Paused, TooManyFailures, Undoing, Undone, NotAccepted.",
			Labels: []string{"phase"},
		}, func(ctx context.Context, set metrics.SetValue) error { return countRollouts(ctx, from, set) }),
		metrics.NewComputedGauge(metrics.Definition{
			Name:   "capstan_propagation_bindings",
			Help:   "Number of ResourceBindings and ClusterResourceBindings by state, of which each has one: pending (clusters are not chosen yet), unschedulable, progressing (not in all clusters as wanted), applied, suspended, deleting.",
			Labels: []string{"state"},
		}, func(ctx context.Context, set metrics.SetValue) error { return countBindings(ctx, from, set) }),
		metrics.NewComputedGauge(metrics.Definition{
			Name:   "capstan_hub_works",
			Help:   "Number of ManifestWorks of all clusters by state, of which each has one: pending (no agent has looked at this generation yet), failed, applied, suspended, deleting.",
			Labels: []string{"state"},
		}, func(ctx context.Context, set metrics.SetValue) error { return countWorks(ctx, from, set) }),
		counting.HeldBackCollector(allowed, "capstan_propagation_limited_namespaces", "bindings (those that are in no namespace, and those of namespaces themselves, count as one)"),
	}
}

// tally counts states; those that it begins with are told even if there are none.
type tally map[string]int

func newTally(states ...string) tally {
	t := tally{}
	for _, state := range states {
		t[state] = 0
	}
	return t
}

func (t tally) setMetric(set metrics.SetValue) {
	for state, count := range t {
		set(float64(count), state)
	}
}

func countRollouts(ctx context.Context, from cache.Cache, set metrics.SetValue) error {
	phases := newTally(
		fleetv1alpha1.PropagationRolloutReasonStarting, fleetv1alpha1.PropagationRolloutReasonRollingOut,
		fleetv1alpha1.PropagationRolloutReasonComplete, fleetv1alpha1.PropagationRolloutReasonPaused,
		fleetv1alpha1.PropagationRolloutReasonTooManyFailures, fleetv1alpha1.PropagationRolloutReasonUndoing,
		fleetv1alpha1.PropagationRolloutReasonUndone, fleetv1alpha1.PropagationRolloutReasonNotAccepted,
	)
	see := func(conditions []metav1.Condition) {
		phase := fleetv1alpha1.PropagationRolloutReasonStarting
		if complete := meta.FindStatusCondition(conditions, fleetv1alpha1.PropagationRolloutConditionComplete); complete != nil {
			phase = cmp.Or(complete.Reason, phase)
		}
		if _, known := phases[phase]; known { // what an earlier release wrote is about to be replaced
			phases[phase]++
		}
	}
	err := errors.Join(
		metrics.EachCached(ctx, from, &fleetv1alpha1.PropagationRollout{}, func(r *fleetv1alpha1.PropagationRollout) { see(r.Status.Conditions) }),
		metrics.EachCached(ctx, from, &fleetv1alpha1.ClusterPropagationRollout{}, func(r *fleetv1alpha1.ClusterPropagationRollout) { see(r.Status.Conditions) }),
	)
	if err == nil {
		phases.setMetric(set)
	}
	return err
}

// States of bindings and works.
const (
	statePending       = "pending"
	stateUnschedulable = "unschedulable"
	stateProgressing   = "progressing"
	stateApplied       = "applied"
	stateFailed        = "failed"
	stateSuspended     = "suspended"
	stateDeleting      = "deleting"
)

func countBindings(ctx context.Context, from cache.Cache, set metrics.SetValue) error {
	states := newTally(statePending, stateUnschedulable, stateProgressing, stateApplied, stateSuspended, stateDeleting)
	err := errors.Join(
		metrics.EachCached(ctx, from, &workv1alpha2.ResourceBinding{}, func(b *workv1alpha2.ResourceBinding) { states[bindingState(b)]++ }),
		metrics.EachCached(ctx, from, &workv1alpha2.ClusterResourceBinding{}, func(b *workv1alpha2.ClusterResourceBinding) { states[bindingState(b)]++ }),
	)
	if err == nil {
		states.setMetric(set)
	}
	return err
}

func bindingState(b workv1alpha2.Binding) string {
	conditions := b.BindingStatus().Conditions
	scheduled := meta.FindStatusCondition(conditions, workv1alpha2.BindingConditionScheduled)
	suspension := b.BindingSpec().Suspension
	switch {
	case b.GetDeletionTimestamp() != nil:
		return stateDeleting
	case suspension != nil && (ptr.Deref(suspension.Dispatching, false) || ptr.Deref(suspension.Scheduling, false)):
		return stateSuspended
	case scheduled == nil:
		return statePending
	case scheduled.Status != metav1.ConditionTrue:
		return stateUnschedulable
	case meta.IsStatusConditionTrue(conditions, workv1alpha2.BindingConditionFullyApplied):
		return stateApplied
	}
	return stateProgressing
}

func countWorks(ctx context.Context, from cache.Cache, set metrics.SetValue) error {
	states := newTally(statePending, stateFailed, stateApplied, stateSuspended, stateDeleting)
	err := metrics.EachCached(ctx, from, &workv1.ManifestWork{}, func(work *workv1.ManifestWork) { states[workState(work)]++ })
	if err == nil {
		states.setMetric(set)
	}
	return err
}

func workState(work *workv1.ManifestWork) string {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	switch {
	case work.DeletionTimestamp != nil:
		return stateDeleting
	case meta.IsStatusConditionFalse(work.Status.Conditions, workv1.ManifestWorkConditionDispatching):
		return stateSuspended
	case applied == nil || applied.ObservedGeneration != work.Generation:
		return statePending
	case applied.Status != metav1.ConditionTrue:
		return stateFailed
	}
	return stateApplied
}
