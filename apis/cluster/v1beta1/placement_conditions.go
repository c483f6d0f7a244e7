// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

// Condition types and reasons of Placement.
const (
	// PlacementConditionSatisfied reports whether as many members were chosen as
	// were asked for.
	PlacementConditionSatisfied = "PlacementSatisfied"

	// PlacementReasonAllDecisionsScheduled (True): they were.
	PlacementReasonAllDecisionsScheduled = "AllDecisionsScheduled"
	// PlacementReasonNoManagedClusterSetBindings (False): no set is bound to the
	// namespace.
	PlacementReasonNoManagedClusterSetBindings = "NoManagedClusterSetBindings"
	// PlacementReasonNoIntersection (False): none of spec.clusterSets is bound to
	// the namespace.
	PlacementReasonNoIntersection = "NoIntersection"
	// PlacementReasonAllManagedClusterSetsEmpty (False): the sets have no member.
	PlacementReasonAllManagedClusterSetsEmpty = "AllManagedClusterSetsEmpty"
	// PlacementReasonNoManagedClusterMatched (False): no member of the sets may be
	// chosen.
	PlacementReasonNoManagedClusterMatched = "NoManagedClusterMatched"
	// PlacementReasonNotAllDecisionsScheduled (False): fewer members may be chosen
	// than are wanted.
	PlacementReasonNotAllDecisionsScheduled = "NotAllDecisionsScheduled"

	// PlacementConditionMisconfigured reports whether the spec has a mistake; the
	// message names the field.
	PlacementConditionMisconfigured = "PlacementMisconfigured"

	// PlacementReasonSucceedConfigured (False): it has none.
	PlacementReasonSucceedConfigured = "Succeedconfigured"
	// PlacementReasonMisconfigured (True): it has one.
	PlacementReasonMisconfigured = "Misconfigured"
)

// Reasons of the events of a Placement. There is one event for each change of
// its decision.
const (
	// PlacementEventDecisionCreate: PlacementDecisions were created.
	PlacementEventDecisionCreate = "DecisionCreate"
	// PlacementEventDecisionUpdate: PlacementDecisions were changed.
	PlacementEventDecisionUpdate = "DecisionUpdate"
	// PlacementEventDecisionDelete: PlacementDecisions were deleted, and no other
	// was changed.
	PlacementEventDecisionDelete = "DecisionDelete"
	// PlacementEventScoreUpdate: nothing but scores and the order by them was changed.
	PlacementEventScoreUpdate = "ScoreUpdate"
)

// Labels, annotations and finalizers around placement.
const (
	// LabelPlacement is on a PlacementDecision: the name of its Placement.
	LabelPlacement = "cluster.open-cluster-management.io/placement"
	// LabelDecisionGroupIndex is on a PlacementDecision: the number of its decision
	// group, from 0.
	LabelDecisionGroupIndex = "cluster.open-cluster-management.io/decision-group-index"
	// LabelDecisionGroupName is on a PlacementDecision: the name of its decision
	// group, or nothing.
	LabelDecisionGroupName = "cluster.open-cluster-management.io/decision-group-name"
	// AnnotationSchedulingDisable on a Placement, with the value "true", makes the
	// controller leave it and its decisions alone.
	AnnotationSchedulingDisable = "cluster.open-cluster-management.io/experimental-scheduling-disable"
)

// DecisionsMax is how many members one PlacementDecision lists.
const DecisionsMax = 100
