// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// AvailableCondition says whether each agent has a pod. One that is not to run yet does
// not count, as long as another does.
func AvailableCondition(deployments ...*appsv1.Deployment) metav1.Condition {
	condition := metav1.Condition{
		Type: operatorv1.KlusterletConditionAvailable, Status: metav1.ConditionTrue,
		Reason: operatorv1.KlusterletReasonAvailable, Message: "the agents are running",
	}
	var missing []string
	for _, deployment := range deployments {
		switch {
		case deployment == nil:
			condition.Status = metav1.ConditionFalse
			condition.Reason = operatorv1.KlusterletReasonGetDeploymentFailed
			condition.Message = "a Deployment of the agents does not exist yet"
			return condition
		case wantedReplicas(deployment) > 0 && deployment.Status.AvailableReplicas == 0:
			missing = append(missing, deployment.Name)
		}
	}
	if missing = slices.Compact(missing); len(missing) > 0 {
		condition.Status = metav1.ConditionFalse
		condition.Reason = operatorv1.KlusterletReasonNoAvailablePods
		condition.Message = "no available pods for Deployment " + strings.Join(missing, ", ")
	}
	return condition
}

// DegradedCondition says whether pods of an agent are missing. None is missing of an
// agent that is not to run yet: tools wait for this condition before they go
// on to let the cluster join.
func DegradedCondition(conditionType string, deployment *appsv1.Deployment) metav1.Condition {
	condition := metav1.Condition{
		Type: conditionType, Status: metav1.ConditionTrue, Reason: operatorv1.KlusterletReasonUnavailablePods,
	}
	switch {
	case deployment == nil:
		condition.Reason = operatorv1.KlusterletReasonGetDeploymentFailed
		condition.Message = "the Deployment does not exist yet"
	case wantedReplicas(deployment) == 0:
		condition.Status = metav1.ConditionFalse
		condition.Reason = operatorv1.KlusterletReasonDeploymentsFunctional
		condition.Message = fmt.Sprintf("Deployment %q has no replicas until the cluster has joined its hub", deployment.Name)
	case deployment.Status.ObservedGeneration < deployment.Generation || unavailableReplicas(deployment) > 0:
		condition.Message = fmt.Sprintf("%d of %d pods of Deployment %q are not available",
			unavailableReplicas(deployment), wantedReplicas(deployment), deployment.Name)
	default:
		condition.Status = metav1.ConditionFalse
		condition.Reason = operatorv1.KlusterletReasonDeploymentsFunctional
		condition.Message = fmt.Sprintf("all %d pods of Deployment %q are available", wantedReplicas(deployment), deployment.Name)
	}
	return condition
}

func wantedReplicas(deployment *appsv1.Deployment) int32 {
	if deployment.Spec.Replicas == nil {
		return 1
	}
	return *deployment.Spec.Replicas
}

func unavailableReplicas(deployment *appsv1.Deployment) int32 {
	return max(0, wantedReplicas(deployment)-deployment.Status.AvailableReplicas)
}

// AllReplicasAvailable reports whether all pods that are wanted are there.
func AllReplicasAvailable(deployment *appsv1.Deployment) bool {
	return deployment != nil && wantedReplicas(deployment) > 0 && unavailableReplicas(deployment) == 0 &&
		deployment.Status.ObservedGeneration >= deployment.Generation
}
