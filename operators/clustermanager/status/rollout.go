// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// ComponentRollout is how far the Deployment of a component is.
type ComponentRollout struct {
	Deployment string
	// CountsFor is the condition that reports whether pods are missing.
	CountsFor string
	// Rolling is true while pods of an earlier state run or pods are missing
	// that never were there.
	Rolling bool
	// Wanted and Available are numbers of pods.
	Wanted, Available int32
	// Trouble is what the Deployment says of pods that cannot be made.
	Trouble string
}

// WantedDeployment is what a Deployment is to be.
type WantedDeployment struct {
	Deployment string
	CountsFor  string
	Replicas   int32
	// Generation that the Deployment had after it was applied.
	Generation int64
}

// RolloutOf compares the Deployment, as the cache has it, with what was applied.
func RolloutOf(wanted WantedDeployment, live *appsv1.Deployment) ComponentRollout {
	r := ComponentRollout{
		Deployment: wanted.Deployment, CountsFor: wanted.CountsFor,
		Wanted: wanted.Replicas, Available: live.Status.AvailableReplicas,
	}
	// A cache that has not seen our own write yet must not look like success.
	seen := live.Generation >= wanted.Generation && live.Status.ObservedGeneration >= wanted.Generation
	r.Rolling = !seen || live.Status.UpdatedReplicas < r.Wanted || live.Status.Replicas > live.Status.UpdatedReplicas ||
		live.Status.AvailableReplicas < r.Wanted
	if !seen {
		r.Available = 0
	}
	for _, condition := range live.Status.Conditions {
		failed := condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue ||
			condition.Type == appsv1.DeploymentProgressing && condition.Status == corev1.ConditionFalse
		if failed {
			r.Trouble = condition.Message
		}
	}
	return r
}

// DescribeRolling returns a sentence about the Deployments that are not as wanted yet,
// or nothing.
func DescribeRolling(rollouts []ComponentRollout) string {
	var parts []string
	for _, r := range rollouts {
		if r.Rolling {
			parts = append(parts, r.String())
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "not all pods are up to date and available: " + strings.Join(parts, "; ")
}

func (r ComponentRollout) String() string {
	text := fmt.Sprintf("%s has %d of %d pods available", r.Deployment, r.Available, r.Wanted)
	if r.Trouble != "" {
		text += " (" + r.Trouble + ")"
	}
	return text
}
