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

// decided is what was decided for the binding as it would be.
type decided struct {
	binding.Decision

	is bool
}

// bind makes the binding say what the object and the policy would ask for, and
// chooses its clusters.
func (f *forecast) bind() {
	var priority *int32
	if asked := f.then.PropagationSpec().SchedulePriority; asked != nil {
		priority = new(f.Priorities[asked.PriorityClassName])
	}
	spec, err := demand.Of(f.Then, f.then, f.Chain, priority)
	if err != nil {
		f.problem("nobody knows the replicas, so the binding stays as it is: %v", err)
		return
	}
	if f.after == nil {
		f.after = empty(f.Then.GetNamespace())
		names := claims.BindingNames(f.Then.GroupVersionKind(), f.Then.GetName())
		f.after.SetName(names[len(names)-1])
	} else {
		demand.Keep(&spec, f.after.BindingSpec())
	}
	if spec.WorkloadAffinityGroups = demand.Groups(f.Then, f.then); spec.WorkloadAffinityGroups != nil && !f.groups() {
		f.note("placement.workloadAffinity counts if the hub's feature gate WorkloadAffinity is on: no binding shows that it is.")
	}
	*f.after.BindingSpec() = spec
	demand.Mark(f.after, f.then)
	f.suspended()
	f.decide()
}

func empty(namespace string) workv1alpha2.Binding {
	if namespace == "" {
		return &workv1alpha2.ClusterResourceBinding{}
	}
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace = namespace
	return b
}

// suspended notes what keeps changes from clusters.
func (f *forecast) suspended() {
	s := f.then.PropagationSpec().Suspension
	switch {
	case s == nil:
	case s.Dispatching != nil && *s.Dispatching:
		f.note("suspension.dispatching is set: no cluster gets the change before that is taken back.")
	case s.DispatchingOnClusters != nil && len(s.DispatchingOnClusters.ClusterNames) > 0:
		f.note("suspension.dispatchingOnClusters is set for %v: they do not get the change before that is taken back.", s.DispatchingOnClusters.ClusterNames)
	}
}

// decide chooses clusters, if the hub would.
func (f *forecast) decide() {
	spec := f.after.BindingSpec()
	state := binding.StateOf(f.after)
	switch {
	case f.Blind:
		f.note("Which clusters would be chosen cannot be told without reading the clusters.")
		return
	case spec.Suspension != nil && spec.Suspension.Scheduling != nil && *spec.Suspension.Scheduling:
		f.note("The binding's suspension.scheduling is set: no clusters are chosen before that is taken back.")
		return
	case !binding.Ours(f.after):
		f.note("The clusters are chosen by scheduler %q, which is not part of the hub.", spec.SchedulerName)
		return
	case f.Fleet.Len() == 0 && len(state.Previous) > 0:
		return
	}
	if needed, _ := binding.Needs(f.Fleet, state); !needed {
		return
	}
	placement, err := json.Marshal(spec.Placement)
	if err != nil {
		f.problem("%s: spec.placement: %v", claims.Name(f.then), err)
		return
	}
	state.Assumed, state.Neighbours = f.assumed, binding.Beside(f.after, f.Peers)
	f.decision = decided{Decision: binding.Decide(f.Fleet, state.Input, f.At), is: true}
	binding.Record(f.after, f.decision.Decision, string(placement))
	if !f.decision.Scheduled {
		f.problem("%s (%s)", f.decision.Message, f.decision.Reason)
	}
	f.take(state.Previous, spec)
	if spec.WorkloadAffinityGroups != nil {
		f.Peers = append(slices.DeleteFunc(f.Peers, func(b workv1alpha2.Binding) bool { return binding.SameObject(b, f.after) }), f.after)
	}
}

// groups tells whether the hub keeps workloads together or apart, as far as bindings
// show it.
func (f *forecast) groups() bool {
	return slices.ContainsFunc(f.Peers, func(b workv1alpha2.Binding) bool { return b.BindingSpec().WorkloadAffinityGroups != nil })
}

// take assumes that the object takes the room of what it would have more.
func (f *forecast) take(previous []workv1alpha2.TargetCluster, spec *workv1alpha2.ResourceBindingSpec) {
	had := map[string]workv1alpha2.TargetCluster{}
	for _, target := range previous {
		had[target.Name] = target
	}
	takes := binding.StateOf(f.after).Footprint()
	for _, target := range spec.Clusters {
		for name, amount := range takes.More(target, had[target.Name]) {
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
