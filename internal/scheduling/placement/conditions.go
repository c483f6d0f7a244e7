// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
)

// reasonsMax is how many reasons a condition lists.
const reasonsMax = 5

// SatisfiedCondition returns the condition that says whether as many clusters were chosen
// as were wanted, with the sums of why others were not. noSets is that of the
// Request.
func SatisfiedCondition(result scheduler.ScheduleResult, noSets string) metav1.Condition {
	condition := metav1.Condition{Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionFalse}
	chosen := len(result.Targets)
	members := result.MemberCount()
	switch {
	case noSets == clusterv1beta1.PlacementReasonNoManagedClusterSetBindings:
		condition.Reason = noSets
		condition.Message = "no ManagedClusterSet that exists is bound to this namespace; create a ManagedClusterSetBinding, or the ManagedClusterSet that a binding names"
	case noSets != "":
		condition.Reason = noSets
		condition.Message = "none of spec.clusterSets is bound to this namespace; create a ManagedClusterSetBinding for one of them"
	case members == 0:
		condition.Reason = clusterv1beta1.PlacementReasonAllManagedClusterSetsEmpty
		condition.Message = "the bound ManagedClusterSets have no clusters"
	case chosen == 0 && (result.EligibleCount() == 0 || result.WantedCount() > 0):
		condition.Reason = clusterv1beta1.PlacementReasonNoManagedClusterMatched
		condition.Message = "no cluster may be chosen" + formatRefusals(result)
	case result.MissingCount() > 0:
		condition.Reason = clusterv1beta1.PlacementReasonNotAllDecisionsScheduled
		condition.Message = fmt.Sprintf("%d clusters chosen, %d more wanted%s", chosen, result.MissingCount(), formatRefusals(result))
	default:
		condition.Status = metav1.ConditionTrue
		condition.Reason = clusterv1beta1.PlacementReasonAllDecisionsScheduled
		condition.Message = fmt.Sprintf("%d of %d clusters chosen%s", chosen, members, formatRefusals(result))
	}
	condition.Message += formatNotices(result)
	return condition
}

// formatNotices says which fields have no effect: "; spec.prioritizerPolicy.configurations[0]:
// 2 of 5 clusters have no valid score demo/heat".
func formatNotices(result scheduler.ScheduleResult) string {
	var text strings.Builder
	for _, notice := range result.IneffectiveNotices() {
		fmt.Fprintf(&text, "; %s: %s", notice.Path, notice.Text)
	}
	return text.String()
}

// formatRefusals sums up why clusters were not chosen: "; 12: taint gpu=only:NoSelect
// is not tolerated".
func formatRefusals(result scheduler.ScheduleResult) string {
	var text strings.Builder
	for n, sum := range result.RefusalCounts() {
		if n == reasonsMax {
			text.WriteString("; others for other reasons")
			break
		}
		fmt.Fprintf(&text, "; %d: %s", sum.Clusters, sum.Reason)
	}
	return text.String()
}

// TooManyGroups returns what is wrong with the size of groups for so many chosen clusters, nil if
// nothing is.
func TooManyGroups(grouping scheduler.Grouping, clusters int) *field.Error {
	size, larger := grouping.SizeOf(clusters)
	if !larger {
		return nil
	}
	return field.Invalid(field.NewPath("spec", "decisionStrategy", "groupStrategy", "clustersPerDecisionGroup"), grouping.Size.String(), fmt.Sprintf(
		"a Placement has at most %d groups, so those of these %d clusters have up to %d; ask for as many", scheduler.GroupsMax, clusters, size))
}

// MisconfiguredCondition returns the condition that says whether the spec has mistakes.
func MisconfiguredCondition(problems field.ErrorList) metav1.Condition {
	if len(problems) > 0 {
		return metav1.Condition{
			Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionTrue,
			Reason: clusterv1beta1.PlacementReasonMisconfigured, Message: problems.ToAggregate().Error(),
		}
	}
	return metav1.Condition{
		Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionFalse,
		Reason: clusterv1beta1.PlacementReasonSucceedConfigured, Message: "the spec is valid",
	}
}
