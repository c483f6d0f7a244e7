// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package health summarizes in one word whether a cluster, a work, an object of
// a work, a placement or a replica set is healthy, and in one sentence why not.
//
// It decides only: it has no client and no clock.
package health

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// Reasons that stand in no condition.
const (
	// WaitingForAcceptance: nobody has accepted the cluster on the hub yet.
	WaitingForAcceptance = "WaitingForAcceptance"
	// Denied: the cluster was accepted and is not any more.
	Denied = clusterv1.ManagedClusterReasonHubClusterAdminDenied
	// AcceptancePending: somebody accepted the cluster, and the hub has not acted on it yet.
	AcceptancePending = "AcceptancePending"
	// WaitingForAgent: no agent has joined as this cluster yet.
	WaitingForAgent = "WaitingForAgent"
	// NoReport: the agent has not said yet how the cluster is.
	NoReport = "NoReport"
	// Deleting: somebody deleted it, and it waits for something.
	Deleting = "Deleting"
	// NotSeen: the agent has not looked at the work yet, or the placement controller
	// at the placement.
	NotSeen = "NotSeen"
	// OutOfDate: it has not processed the latest change yet.
	OutOfDate = "OutOfDate"
)

// ReadinessState says how something is.
type ReadinessState struct {
	// Ready is True, False or Unknown.
	Ready metav1.ConditionStatus
	// Reason and Message say why it is not True. Both are empty if it is.
	Reason, Message string
}

var ready = ReadinessState{Ready: metav1.ConditionTrue}

// ClusterReadiness says how a cluster is: it is ready if the hub has accepted it, its
// agent has joined and says that its API server is healthy.
func ClusterReadiness(cluster *clusterv1.ManagedCluster) ReadinessState {
	find := func(kind string) *metav1.Condition { return meta.FindStatusCondition(cluster.Status.Conditions, kind) }
	accepted := find(clusterv1.ManagedClusterConditionHubAccepted)
	available := find(clusterv1.ManagedClusterConditionAvailable)
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return deletingState(find(clusterv1.ManagedClusterConditionDeleting))
	case !cluster.Spec.HubAcceptsClient && accepted != nil && (accepted.Status == metav1.ConditionTrue || accepted.Reason == Denied):
		return ReadinessState{metav1.ConditionFalse, Denied, fmt.Sprintf("an administrator of the hub denied it; \"capstan accept %s\" accepts it again", cluster.Name)}
	case !cluster.Spec.HubAcceptsClient:
		return ReadinessState{metav1.ConditionFalse, WaitingForAcceptance, fmt.Sprintf("\"capstan accept %s\" accepts it", cluster.Name)}
	case accepted == nil:
		return ReadinessState{metav1.ConditionUnknown, AcceptancePending, "the hub's registration controller has not acted on the acceptance yet"}
	case accepted.Status != metav1.ConditionTrue:
		return conditionReadiness(accepted)
	case !meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined):
		return ReadinessState{metav1.ConditionFalse, WaitingForAgent, "no agent has joined as this cluster yet"}
	case available == nil:
		return ReadinessState{metav1.ConditionUnknown, NoReport, "its agent has not reported the cluster's health yet"}
	case available.Status != metav1.ConditionTrue:
		return conditionReadiness(available)
	}
	return ready
}

// WorkReadiness says how a work is: it is ready if its agent has seen the latest change,
// all of its objects are applied and exist, and none is known to be on its way
// or broken.
func WorkReadiness(work *workv1.ManifestWork) ReadinessState {
	conditions := work.Status.Conditions
	if !work.DeletionTimestamp.IsZero() {
		return deletingState(meta.FindStatusCondition(conditions, workv1.ManifestWorkConditionDeleting))
	}
	applied := meta.FindStatusCondition(conditions, workv1.ManifestWorkConditionApplied)
	switch {
	case applied == nil:
		return ReadinessState{metav1.ConditionUnknown, NotSeen, "the agent of the cluster has not processed it yet"}
	case applied.ObservedGeneration < work.Generation:
		return ReadinessState{metav1.ConditionUnknown, OutOfDate, "the agent of the cluster has not processed the latest change yet"}
	}
	return conditionsReadiness(conditions)
}

// PlacementReadiness says how a placement is: it is ready if the placement controller has
// seen the latest change, the spec has no mistake, and as many clusters are
// chosen as are wanted.
func PlacementReadiness(p *clusterv1beta1.Placement) ReadinessState {
	if !p.DeletionTimestamp.IsZero() {
		return deletingState(nil)
	}
	satisfied := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionSatisfied)
	misconfigured := meta.FindStatusCondition(p.Status.Conditions, clusterv1beta1.PlacementConditionMisconfigured)
	switch {
	case misconfigured != nil && misconfigured.Status == metav1.ConditionTrue && misconfigured.ObservedGeneration >= p.Generation:
		return ReadinessState{metav1.ConditionFalse, misconfigured.Reason, misconfigured.Message}
	case satisfied == nil:
		return ReadinessState{metav1.ConditionUnknown, NotSeen, "the placement controller of the hub has not processed it yet"}
	case satisfied.ObservedGeneration < p.Generation:
		return ReadinessState{metav1.ConditionUnknown, OutOfDate, "the placement controller of the hub has not processed the latest change yet"}
	case satisfied.Status != metav1.ConditionTrue:
		return conditionReadiness(satisfied)
	}
	return ready
}

// ReplicaSetReadiness says how a ManifestWorkReplicaSet is: it is ready if its placements
// choose clusters, and all of these have succeeded with the current template.
func ReplicaSetReadiness(set *workv1alpha1.ManifestWorkReplicaSet) ReadinessState {
	if !set.DeletionTimestamp.IsZero() {
		return deletingState(nil)
	}
	for _, kind := range []string{workv1alpha1.ConditionPlacementVerified, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ConditionManifestworkApplied} {
		c := meta.FindStatusCondition(set.Status.Conditions, kind)
		switch {
		case c == nil && len(set.Status.Conditions) == 0:
			return ReadinessState{metav1.ConditionUnknown, NotSeen, "the work controller of the hub has not processed it yet"}
		case c == nil: // another one says why
		case c.ObservedGeneration < set.Generation:
			return ReadinessState{metav1.ConditionUnknown, OutOfDate, "the work controller of the hub has not processed the latest change yet"}
		case c.Status != metav1.ConditionTrue:
			return conditionReadiness(c)
		}
	}
	return ready
}

// ObjectReadiness says how one object of a work is.
func ObjectReadiness(conditions []metav1.Condition) ReadinessState {
	if len(conditions) == 0 {
		return ReadinessState{metav1.ConditionUnknown, NotSeen, "the agent of the cluster has not processed it yet"}
	}
	return conditionsReadiness(conditions)
}

// conditionsReadiness is for the conditions that works and their objects have alike.
func conditionsReadiness(conditions []metav1.Condition) ReadinessState {
	for _, kind := range []string{workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable} {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status != metav1.ConditionTrue {
			return conditionReadiness(c)
		}
	}
	for _, kind := range []string{workv1.ManifestWorkConditionDegraded, workv1.ManifestWorkConditionProgressing} {
		if c := meta.FindStatusCondition(conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return ReadinessState{metav1.ConditionFalse, c.Reason, c.Message}
		}
	}
	return ready
}

func conditionReadiness(condition *metav1.Condition) ReadinessState {
	return ReadinessState{Ready: condition.Status, Reason: condition.Reason, Message: condition.Message}
}

func deletingState(condition *metav1.Condition) ReadinessState {
	state := ReadinessState{metav1.ConditionFalse, Deleting, "it is being deleted"}
	if condition != nil && condition.Message != "" {
		state.Message = condition.Message
	}
	return state
}

// conditionKind is what is known about a condition type: its place in lists, and the
// status that is fine.
type conditionKind struct {
	place int
	fine  metav1.ConditionStatus
}

// wellKnown has the condition types of ManagedCluster, ManifestWork with its
// objects, Placement and ManifestWorkReplicaSet, in the order in which things happen.
func wellKnown() map[string]conditionKind {
	types := []string{
		clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable,
		clusterv1.ManagedClusterConditionClockSynced, clusterv1.ManagedClusterConditionClusterCertificateRotated,
		clusterv1.ManagedClusterConditionWorksMissing,
		workv1.ManifestWorkConditionApplied, workv1.ManifestWorkConditionAvailable, workv1.ManifestWorkConditionStatusFeedbackSynced,
		workv1.ManifestWorkConditionProgressing, workv1.ManifestWorkConditionDegraded, workv1.ManifestWorkConditionComplete,
		workv1.ManifestWorkConditionDeleting,
		clusterv1beta1.PlacementConditionSatisfied, clusterv1beta1.PlacementConditionMisconfigured,
		workv1alpha1.ConditionPlacementVerified, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ConditionManifestworkApplied,
	}
	kinds := map[string]conditionKind{}
	for i, t := range types {
		kinds[t] = conditionKind{place: i, fine: metav1.ConditionTrue}
	}
	for _, t := range []string{
		workv1.ManifestWorkConditionProgressing, workv1.ManifestWorkConditionDegraded, clusterv1beta1.PlacementConditionMisconfigured,
		clusterv1.ManagedClusterConditionWorksMissing,
	} {
		kinds[t] = conditionKind{place: kinds[t].place, fine: metav1.ConditionFalse}
	}
	// Neither status is fine or not: what is complete, and why something is
	// deleted, is for the user to judge.
	kinds[workv1.ManifestWorkConditionComplete] = conditionKind{place: kinds[workv1.ManifestWorkConditionComplete].place}
	kinds[workv1.ManifestWorkConditionDeleting] = conditionKind{place: kinds[workv1.ManifestWorkConditionDeleting].place}
	return kinds
}

// SortConditions returns the conditions in the order in which things happen; those of
// types that are not known come last, by name.
func SortConditions(conditions []metav1.Condition) []metav1.Condition {
	known := wellKnown()
	place := func(c metav1.Condition) int {
		if k, ok := known[c.Type]; ok {
			return k.place
		}
		return len(known)
	}
	sorted := slices.Clone(conditions)
	slices.SortStableFunc(sorted, func(a, b metav1.Condition) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Type, b.Type))
	})
	return sorted
}

// IsConditionFine reports whether the condition has the status that it should have. Of types
// that are not known, and of those whose status is for the user to judge, it
// returns false.
func IsConditionFine(condition metav1.Condition) bool {
	k, ok := wellKnown()[condition.Type]
	return ok && k.fine == condition.Status
}
