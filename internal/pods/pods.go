// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pods explains why a Deployment has no running pod.
//
// It decides only: it has no client and no clock.
package pods

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// WhyNotRunning says why no pod of the Deployment runs, by the first pod that
// has something to say; empty if one runs.
func WhyNotRunning(deployment *appsv1.Deployment, pods []corev1.Pod) string {
	if deployment == nil {
		return "the Deployment of the agent does not exist yet"
	}
	for i := range pods {
		for _, container := range pods[i].Status.ContainerStatuses {
			if container.State.Running != nil {
				return ""
			}
		}
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range pods {
		if why := podState(&pods[i]); why != "" {
			return fmt.Sprintf("no pod of Deployment %q is running: %s", deployment.Name, why)
		}
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return fmt.Sprintf("no pod of Deployment %q could be created: %s", deployment.Name, condition.Message)
		}
	}
	return fmt.Sprintf("no pod of Deployment %q is running yet", deployment.Name)
}

// podState says what a pod waits for. The name of the pod is left out: it
// changes with each attempt, and the label finds it as well.
func podState(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Reason + ": " + condition.Message
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		if w := container.State.Waiting; w != nil && w.Reason != "" {
			why := w.Reason
			if last := container.LastTerminationState.Terminated; last != nil && last.Message != "" {
				return fmt.Sprintf("%s: terminated with %q", why, strings.TrimSpace(last.Message))
			}
			if w.Message != "" {
				why += ": " + w.Message
			}
			return why
		}
	}
	return ""
}
