// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"encoding/json"
	"slices"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/decision"
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
func (f *forecast) forecastBinding(spec workv1alpha2.ResourceBindingSpec) {
	if f.after == nil {
		f.after = newEmptyBinding(f.Then.GetNamespace())
		names := claims.BindingNames(f.Then.GroupVersionKind(), f.Then.GetName())
		f.after.SetName(names[len(names)-1])
	} else {
		demand.PreserveDecidedFields(&spec, f.after.BindingSpec())
	}
	if spec.WorkloadAffinityGroups != nil && !f.usesAffinityGroups() {
		f.addNote("placement.workloadAffinity counts if the hub's feature gate WorkloadAffinity is on: no binding shows that it is.")
	}
	*f.after.BindingSpec() = spec
	demand.MarkPartialPlacement(f.after, f.then)
	if dispatch := decision.DecideDispatch(&spec); dispatch.Code != decision.Dispatched {
		f.addNote("%s", dispatch.ToSentence())
	}
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

// decideClusters chooses clusters for the binding as it would be, if the hub would.
func (f *forecast) decideClusters() {
	if f.Blind {
		f.addNote("Which clusters would be chosen cannot be determined without reading the clusters.")
		return
	}
	schedule := decision.DecideSchedule(decision.ScheduleFacts{Binding: f.after, Fleet: f.Fleet})
	switch schedule.Code {
	case decision.Chosen:
	case decision.Kept:
		return
	default:
		f.addNote("%s", schedule.ToSentence())
		return
	}
	spec := f.after.BindingSpec()
	state := schedule.State
	placement, err := json.Marshal(spec.Placement)
	if err != nil {
		f.addProblem("%s: spec.placement: %v", claims.PolicyDisplayName(f.then), err)
		return
	}
	state.Assumed = f.assumed
	state.Neighbours = binding.NeighboursOfBinding(f.after, f.Peers)
	f.decided = forecastDecision{SchedulingDecision: binding.DecidePlacement(f.Fleet, state.PlacementInput, f.At), is: true}
	binding.RecordDecision(f.after, f.decided.SchedulingDecision, string(placement))
	if !f.decided.Scheduled {
		f.addProblem("%s (%s)", f.decided.Message, f.decided.Reason)
	}
	f.assumed = state.Footprint().AssumeTargets(f.assumed, state.Previous, spec.Clusters)
	if spec.WorkloadAffinityGroups != nil {
		f.Peers = append(slices.DeleteFunc(f.Peers, func(b workv1alpha2.Binding) bool { return binding.SameObject(b, f.after) }), f.after)
	}
}

// usesAffinityGroups reports whether the hub keeps workloads together or apart, as far as bindings
// show it.
func (f *forecast) usesAffinityGroups() bool {
	return slices.ContainsFunc(f.Peers, func(b workv1alpha2.Binding) bool { return b.BindingSpec().WorkloadAffinityGroups != nil })
}
