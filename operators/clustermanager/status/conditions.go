// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
)

// AppliedCondition says whether the hub is installed. One that was installed before stays
// so while it waits for a change: Progressing tells of that.
func AppliedCondition(present []metav1.Condition, o install.PassOutcome) metav1.Condition {
	applied := metav1.Condition{
		Type: operatorv1.ClusterManagerConditionApplied, Status: metav1.ConditionTrue,
		Reason: operatorv1.ClusterManagerReasonApplied, Message: "the hub is installed",
	}
	if o.Result == install.Done || o.Result == install.Waiting && IsTrue(present, applied.Type) {
		return applied
	}
	applied.Status = metav1.ConditionFalse
	applied.Reason = o.Reason
	applied.Message = o.Message
	return applied
}

// ProgressingCondition says whether Deployments are on their way to the installed state.
func ProgressingCondition(rollouts []ComponentRollout) metav1.Condition {
	condition := metav1.Condition{
		Type: operatorv1.ClusterManagerConditionProgressing, Status: metav1.ConditionFalse,
		Reason: operatorv1.ClusterManagerReasonUpToDate, Message: "all components are up to date",
	}
	if rolling := DescribeRolling(rollouts); rolling != "" {
		condition.Status = metav1.ConditionTrue
		condition.Reason = operatorv1.ClusterManagerReasonDeploymentRolling
		condition.Message = rolling
	}
	return condition
}

// PlacementCondition says whether pods of the placement controller are missing.
func PlacementCondition(rollouts []ComponentRollout) metav1.Condition {
	return degradedCondition(rollouts, metav1.Condition{
		Type:   operatorv1.ClusterManagerConditionHubPlacementDegraded,
		Reason: operatorv1.ClusterManagerReasonPlacementFunctional, Message: "all placement pods are available",
	}, operatorv1.ClusterManagerReasonUnavailablePlacementPod)
}

// PropagationCondition says whether pods of the propagation controller are missing.
func PropagationCondition(rollouts []ComponentRollout) metav1.Condition {
	return degradedCondition(rollouts, metav1.Condition{
		Type:   operatorv1.ClusterManagerConditionHubPropagationDegraded,
		Reason: operatorv1.ClusterManagerReasonPropagationFunctional, Message: "all propagation pods are available",
	}, operatorv1.ClusterManagerReasonUnavailablePropagationPod)
}

// RegistrationCondition says whether pods of the registration controller or webhook are missing.
func RegistrationCondition(rollouts []ComponentRollout) metav1.Condition {
	return degradedCondition(rollouts, metav1.Condition{
		Type:   operatorv1.ClusterManagerConditionHubRegistrationDegraded,
		Reason: operatorv1.ClusterManagerReasonRegistrationFunctional, Message: "all registration pods are available",
	}, operatorv1.ClusterManagerReasonUnavailableRegistrationPod)
}

// degradedCondition returns the condition: as it is given, with status False, or with the
// other reason if pods are missing that count for it.
func degradedCondition(rollouts []ComponentRollout, functional metav1.Condition, unavailable string) metav1.Condition {
	var missing []string
	for _, r := range rollouts {
		if r.CountsFor == functional.Type && r.Available < r.Wanted {
			missing = append(missing, r.String())
		}
	}
	condition := functional
	condition.Status = metav1.ConditionFalse
	if len(missing) > 0 {
		condition.Status = metav1.ConditionTrue
		condition.Reason = unavailable
		condition.Message = strings.Join(missing, "; ")
	}
	return condition
}

// FeatureGatesCondition says whether all feature gates exist; valid is the message if they do.
func FeatureGatesCondition(unknown []string, valid string) metav1.Condition {
	condition := metav1.Condition{
		Type: operatorv1.ClusterManagerConditionValidFeatureGates, Status: metav1.ConditionTrue,
		Reason: operatorv1.ReasonFeatureGatesAllValid, Message: valid,
	}
	if len(unknown) > 0 {
		condition.Status = metav1.ConditionFalse
		condition.Reason = operatorv1.ReasonInvalidFeatureGatesExisting
		condition.Message = "unknown feature gates are ignored: " + strings.Join(unknown, ", ")
	}
	return condition
}

// IsTrue reports whether the condition of the type is True.
func IsTrue(conditions []metav1.Condition, conditionType string) bool {
	return meta.IsStatusConditionTrue(conditions, conditionType)
}
