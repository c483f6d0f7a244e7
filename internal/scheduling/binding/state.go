// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// IsScheduledByUs reports whether it is for us to choose the clusters of a binding: no other
// scheduler is asked for, and nobody has suspended it. Bindings without a
// placement follow those that their objects are needed by.
func IsScheduledByUs(b workv1alpha2.Binding) bool {
	spec := b.BindingSpec()
	suspended := spec.Suspension != nil && spec.Suspension.Scheduling != nil && *spec.Suspension.Scheduling
	return !suspended && cmp.Or(spec.SchedulerName, policyv1alpha1.DefaultScheduler) == policyv1alpha1.DefaultScheduler && spec.Placement != nil
}

// ClustersOnHold reports whether the clusters that a binding may have do not count yet: who
// suspended it did so before any were chosen for good.
func ClustersOnHold(b workv1alpha2.Binding) bool {
	spec := b.BindingSpec()
	suspended := spec.Suspension != nil && spec.Suspension.Scheduling != nil && *spec.Suspension.Scheduling
	return suspended && spec.Placement != nil && meta.FindStatusCondition(b.BindingStatus().Conditions, workv1alpha2.BindingConditionScheduled) == nil
}

// StateOf returns what the decision for a binding depends on.
func StateOf(b workv1alpha2.Binding) SchedulingState {
	spec := b.BindingSpec()
	status := b.BindingStatus()
	state := SchedulingState{
		PlacementInput: PlacementInput{
			Placement: spec.Placement, Resource: spec.Resource, Workload: spec.Replicas > 0 || spec.ReplicaRequirements != nil,
			Replicas: spec.Replicas, Requirements: spec.ReplicaRequirements, Components: spec.Components, Previous: spec.Clusters,
			ObservedAffinity: status.SchedulerObservedAffinityName, UID: spec.Resource.UID,
		},
		AppliedPlacement:      b.GetAnnotations()[policyv1alpha1.AnnotationAppliedPlacement],
		RescheduleTriggeredAt: spec.RescheduleTriggeredAt, LastScheduled: status.LastScheduledTime,
	}
	state.Fresh = state.Triggered()
	state.Partial = b.GetAnnotations()[fleetv1alpha1.AnnotationPartialPlacement] == "true"
	for _, task := range spec.GracefulEvictionTasks {
		state.Evicting = append(state.Evicting, task.FromCluster)
	}
	return state
}

// RecordDecision makes the binding say what was decided, and reports whether it did not. The
// clusters stay if nothing could be placed on those that may be chosen.
func RecordDecision(b workv1alpha2.Binding, decision SchedulingDecision, placement string) (changed bool) {
	if b.GetAnnotations()[policyv1alpha1.AnnotationAppliedPlacement] != placement {
		annotations := maps.Clone(b.GetAnnotations())
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[policyv1alpha1.AnnotationAppliedPlacement] = placement
		b.SetAnnotations(annotations)
		changed = true
	}
	if !decision.ClustersChosen() && decision.Reason != workv1alpha2.BindingReasonNoClusterFit {
		return changed
	}
	changed = changed || !equality.Semantic.DeepEqual(b.BindingSpec().Clusters, decision.Clusters)
	b.BindingSpec().Clusters = slices.Clone(decision.Clusters)
	return changed
}
