// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"k8s.io/apimachinery/pkg/api/meta"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
)

// ScheduleFacts are what decides whether the clusters of a binding are chosen now.
type ScheduleFacts struct {
	Binding workv1alpha2.Binding
	Fleet   view.Fleet
	// Asked says that somebody asks to choose anew, as a WorkloadRebalancer would.
	Asked bool
	// Refused says that admission has refused the clusters, and it is not time yet to try
	// again.
	Refused bool
}

// ScheduleDecision says whether clusters are chosen.
type ScheduleDecision struct {
	Reason
	// State is what they are chosen by.
	State binding.SchedulingState
}

// DecideSchedule decides whether the clusters of a binding are chosen now: they are if the
// code is Chosen. If it is Kept, the decision that the binding has is still right.
// With any other code there is nothing to decide here, and the binding stays as it is.
func DecideSchedule(f ScheduleFacts) ScheduleDecision {
	spec := f.Binding.BindingSpec()
	if !binding.IsScheduledByUs(f.Binding) {
		return ScheduleDecision{Reason: reasonNotOurs(spec)}
	}
	state := binding.StateOf(f.Binding)
	state.Fresh = state.Fresh || f.Asked
	return ScheduleDecision{Reason: f.scheduleReason(state), State: state}
}

// scheduleReason says whether to choose the clusters of a binding for which that is for us to do.
func (f ScheduleFacts) scheduleReason(state binding.SchedulingState) Reason {
	needed, why := binding.NeedsScheduling(f.Fleet, state)
	switch {
	case f.Fleet.Len() == 0 && len(state.Previous) > 0: // more is amiss than with this object, and what runs stays
		return Reason{Code: NoClusters}
	case f.Refused:
		return Reason{Code: Refused}
	case f.Asked:
		return Reason{Code: Chosen, Detail: "the user asks to decide anew"}
	case needed:
		return Reason{Code: Chosen, Detail: why}
	case !meta.IsStatusConditionTrue(f.Binding.BindingStatus().Conditions, workv1alpha2.BindingConditionScheduled):
		return Reason{Code: Chosen, Detail: "the last decision could not be made"}
	default:
		return Reason{Code: Kept}
	}
}

// reasonNotOurs says why it is not for us to choose the clusters of a binding.
func reasonNotOurs(spec *workv1alpha2.ResourceBindingSpec) Reason {
	switch {
	case spec.Placement == nil:
		return Reason{Code: Follows}
	case spec.Suspension != nil && spec.Suspension.Scheduling != nil && *spec.Suspension.Scheduling:
		return Reason{Code: ScheduleSuspended}
	default:
		return Reason{Code: OtherScheduler, Detail: spec.SchedulerName}
	}
}
