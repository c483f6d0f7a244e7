// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"encoding/json"
	"slices"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/demand"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// forecastDecision is what was decided for the binding as it would be.
type forecastDecision struct {
	binding.SchedulingDecision

	is bool
}

// forecastBinding makes the binding say what the object and the policy would ask for, and
// chooses its clusters.
func (f *forecast) forecastBinding() {
	var priority *int32
	if asked := f.then.PropagationSpec().SchedulePriority; asked != nil {
		priority = new(f.Priorities[asked.PriorityClassName])
	}
	spec, err := demand.BindingSpecFor(f.Then, f.then, f.Chain, priority)
	if err != nil {
		f.addProblem("nobody knows the replicas, so the binding stays as it is: %v", err)
		return
	}
	if f.after == nil {
		f.after = newEmptyBinding(f.Then.GetNamespace())
		names := claims.BindingNames(f.Then.GroupVersionKind(), f.Then.GetName())
		f.after.SetName(names[len(names)-1])
	} else {
		demand.PreserveDecidedFields(&spec, f.after.BindingSpec())
	}
	if spec.WorkloadAffinityGroups = demand.AffinityGroupsOf(f.Then, f.then); spec.WorkloadAffinityGroups != nil && !f.usesAffinityGroups() {
		f.addNote("placement.workloadAffinity counts if the hub's feature gate WorkloadAffinity is on: no binding shows that it is.")
	}
	*f.after.BindingSpec() = spec
	demand.MarkPartialPlacement(f.after, f.then)
	f.noteSuspension()
	f.decideClusters()
}

func newEmptyBinding(namespace string) workv1alpha2.Binding {
	if namespace == "" {
		return &workv1alpha2.ClusterResourceBinding{}
	}
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace = namespace
	return b
}

// noteSuspension notes what keeps changes from clusters.
func (f *forecast) noteSuspension() {
	s := f.then.PropagationSpec().Suspension
	switch {
	case s == nil:
	case s.Dispatching != nil && *s.Dispatching:
		f.addNote("suspension.dispatching is set: no cluster gets the change before that is taken back.")
	case s.DispatchingOnClusters != nil && len(s.DispatchingOnClusters.ClusterNames) > 0:
		f.addNote("suspension.dispatchingOnClusters is set for %v: they do not get the change before that is taken back.", s.DispatchingOnClusters.ClusterNames)
	}
}

// decideClusters chooses clusters, if the hub would.
func (f *forecast) decideClusters() {
	spec := f.after.BindingSpec()
	state := binding.StateOf(f.after)
	switch {
	case f.Blind:
		f.addNote("Which clusters would be chosen cannot be told without reading the clusters.")
		return
	case spec.Suspension != nil && spec.Suspension.Scheduling != nil && *spec.Suspension.Scheduling:
		f.addNote("The binding's suspension.scheduling is set: no clusters are chosen before that is taken back.")
		return
	case !binding.IsScheduledByUs(f.after):
		f.addNote("The clusters are chosen by scheduler %q, which is not part of the hub.", spec.SchedulerName)
		return
	case f.Fleet.Len() == 0 && len(state.Previous) > 0:
		return
	}
	if needed, _ := binding.NeedsScheduling(f.Fleet, state); !needed {
		return
	}
	placement, err := json.Marshal(spec.Placement)
	if err != nil {
		f.addProblem("%s: spec.placement: %v", claims.PolicyDisplayName(f.then), err)
		return
	}
	state.Assumed, state.Neighbours = f.assumed, binding.NeighboursOfBinding(f.after, f.Peers)
	f.decision = forecastDecision{SchedulingDecision: binding.DecidePlacement(f.Fleet, state.PlacementInput, f.At), is: true}
	binding.RecordDecision(f.after, f.decision.SchedulingDecision, string(placement))
	if !f.decision.Scheduled {
		f.addProblem("%s (%s)", f.decision.Message, f.decision.Reason)
	}
	f.assumeUsage(state.Previous, spec)
	if spec.WorkloadAffinityGroups != nil {
		f.Peers = append(slices.DeleteFunc(f.Peers, func(b workv1alpha2.Binding) bool { return binding.SameObject(b, f.after) }), f.after)
	}
}

// usesAffinityGroups reports whether the hub keeps workloads together or apart, as far as bindings
// show it.
func (f *forecast) usesAffinityGroups() bool {
	return slices.ContainsFunc(f.Peers, func(b workv1alpha2.Binding) bool { return b.BindingSpec().WorkloadAffinityGroups != nil })
}

// assumeUsage assumes that the object takes the room of what it would have more.
func (f *forecast) assumeUsage(previous []workv1alpha2.TargetCluster, spec *workv1alpha2.ResourceBindingSpec) {
	had := map[string]workv1alpha2.TargetCluster{}
	for _, target := range previous {
		had[target.Name] = target
	}
	takes := binding.StateOf(f.after).Footprint()
	for _, target := range spec.Clusters {
		for name, amount := range takes.AdditionalAmounts(target, had[target.Name]) {
			if f.assumed == nil {
				f.assumed = map[string]view.Amounts{}
			}
			if f.assumed[target.Name] == nil {
				f.assumed[target.Name] = view.Amounts{}
			}
			f.assumed[target.Name][name] += amount
		}
	}
}
