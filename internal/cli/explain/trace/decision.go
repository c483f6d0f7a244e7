// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/propagation/decision"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// bindingDecision is what the hub decides for the binding as things are now.
type bindingDecision struct {
	binding.SchedulingDecision

	// needed says why it decides anew, "" if it does not.
	needed string
}

// decideBinding makes the decision of the hub anew, on what the user may read, with the
// one that is written as the previous one. It is nil if the decision is not the
// hub's, or the clusters may not be read.
func (f *ObjectFacts) decideBinding(now time.Time) *bindingDecision {
	if f.clustersHidden {
		return nil
	}
	b := f.Binding.asBinding()
	fleet := f.viewFleet()
	schedule := decision.DecideSchedule(decision.ScheduleFacts{Binding: b, Fleet: fleet})
	if schedule.Code != decision.Chosen && schedule.Code != decision.Kept {
		return nil
	}
	state := schedule.State
	state.Neighbours = binding.NeighboursOfBinding(b, f.Peers)
	return &bindingDecision{SchedulingDecision: binding.DecidePlacement(fleet, state.PlacementInput, now), needed: schedule.Detail}
}

// refusalReason returns why a cluster is not chosen.
func (d *bindingDecision) refusalReason(cluster string) string {
	if d == nil {
		return ""
	}
	v, found := d.VerdictForCluster(cluster)
	switch {
	case !found:
		return ""
	case v.Chosen:
		return "it would be chosen now"
	default:
		return v.Reason
	}
}

// decisionDifference says what the hub would decide now, if that is not what is written.
func (d *bindingDecision) decisionDifference(written []workv1alpha2.TargetCluster) string {
	if d == nil || d.needed == "" {
		return ""
	}
	if !d.ClustersChosen() {
		return fmt.Sprintf("As of now no other clusters would be chosen: %s.", trimFullStop(d.Message))
	}
	if slices.EqualFunc(sortedTargets(written), sortedTargets(d.Clusters), isSameTarget) {
		return ""
	}
	var names []string
	for _, target := range d.Clusters {
		name := target.Name
		if target.Replicas > 0 {
			name = fmt.Sprintf("%s (%d)", name, target.Replicas)
		}
		names = append(names, name)
	}
	return fmt.Sprintf("As of now the clusters would be %s: the hub decides again in a moment (%s). If nothing changes, \"capstan doctor\" shows whether its propagation controller is running.", decision.JoinNames(names), d.needed)
}

func isSameTarget(a, b workv1alpha2.TargetCluster) bool {
	return a.Name == b.Name && a.Replicas == b.Replicas && slices.Equal(a.Components, b.Components)
}

func sortedTargets(targets []workv1alpha2.TargetCluster) []workv1alpha2.TargetCluster {
	return slices.SortedFunc(slices.Values(targets), func(a, b workv1alpha2.TargetCluster) int { return cmp.Compare(a.Name, b.Name) })
}

// trimFullStop is a message without the full stop at its end.
func trimFullStop(message string) string {
	for len(message) > 0 && message[len(message)-1] == '.' {
		message = message[:len(message)-1]
	}
	return message
}
