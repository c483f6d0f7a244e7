// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// PreviewReplicas returns where the replicas of a binding would be if they were divided
// now among the clusters of its group. It is false if there is nothing to say:
// the replicas are not divided, parts stay together, something is to be decided for the binding
// anyway, or it is kept together with others.
func (d *Decider) PreviewReplicas(b workv1alpha2.Binding) ([]workv1alpha2.TargetCluster, bool, error) {
	fleet := d.fleet.Snapshot()
	schedule := d.decideSchedule(b, fleet)
	state := schedule.State
	if schedule.Code != decision.Kept || len(d.groups.groupsOf(b)) > 0 || len(b.BindingSpec().Components) > 0 || len(state.Evicting) > 0 ||
		b.BindingStatus().SchedulerObservedGeneration != b.GetGeneration() {
		return nil, false, nil
	}
	state.Fresh, state.Placement = true, placementOfGroup(state.Placement, state.ObservedAffinity)
	better, err := d.tryDecision(fleet, state.PlacementInput, nil)
	if err != nil || !better.Scheduled {
		return nil, false, err
	}
	if prefersAggregated(state.Placement) && len(better.Clusters) >= len(state.Previous) {
		return nil, false, nil // what it is about is few clusters, and these are as many
	}
	return better.Clusters, true, nil
}

// AdmitMove notes that replicas of a binding go to other clusters. It is false if they
// may not be there all together, as the spread constraints have it.
func (d *Decider) AdmitMove(b workv1alpha2.Binding, to []workv1alpha2.TargetCluster) (bool, error) {
	state := binding.StateOf(b)
	if !dividesByRoom(state.Placement) { // static weights know no constraints
		return true, nil
	}
	then := state.PlacementInput
	then.Previous, then.Placement = to, placementOfGroup(state.Placement, state.ObservedAffinity)
	chosen, err := d.tryDecision(d.fleet.Snapshot(), then, nil)
	if err != nil || !chosen.Scheduled || !equality.Semantic.DeepEqual(chosen.Clusters, to) {
		return false, err
	}
	_, err = d.tryDecision(d.fleet.Snapshot(), state.PlacementInput, to)
	return true, err
}

// tryDecision decides without anything becoming of it, or takes to for what was decided:
// the room there is taken from now on.
func (d *Decider) tryDecision(fleet view.Fleet, in binding.PlacementInput, to []workv1alpha2.TargetCluster) (chosen binding.SchedulingDecision, err error) {
	text, err := json.Marshal(in.Placement)
	if err != nil {
		return chosen, fmt.Errorf("encoding a placement: %w", err)
	}
	ready := d.prepareDecision(fleet, in, string(text))
	if len(ready.problems) > 0 {
		return chosen, nil // the binding says so
	}
	now := d.clock.Now()
	d.room.Lock()
	defer d.room.Unlock()
	d.assumed.decideWithAssumptions(ready.placed, now, func(uses map[string]view.Amounts) ([]workv1alpha2.TargetCluster, bool) {
		if to != nil {
			return to, true
		}
		in := ready.in
		in.Assumed = uses
		chosen = ready.compiled.DecideClusters(fleet, in, now)
		return nil, false
	})
	return chosen, nil
}

// placementOfGroup returns a placement with only the group of clusters that is used: replicas
// do not go from one to another by themselves.
func placementOfGroup(placement *policyv1alpha1.Placement, name string) *policyv1alpha1.Placement {
	n := slices.IndexFunc(placement.ClusterAffinities, func(term policyv1alpha1.ClusterAffinityTerm) bool { return term.AffinityName == name })
	if n < 0 {
		return placement
	}
	only := *placement
	only.ClusterAffinities = placement.ClusterAffinities[n : n+1]
	return &only
}

func prefersAggregated(placement *policyv1alpha1.Placement) bool {
	return placement.ReplicaScheduling != nil && placement.ReplicaScheduling.ReplicaDivisionPreference == policyv1alpha1.ReplicaDivisionPreferenceAggregated
}
