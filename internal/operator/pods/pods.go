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
	reason, message := WaitingReason(pod)
	if message == "" {
		return reason
	}
	return reason + ": " + message
}

// WaitingReason returns what a pod waits for: that it is scheduled, or that a container
// of it runs, with the last words of one that terminates again and again. Both
// are empty if there is nothing to say.
func WaitingReason(pod *corev1.Pod) (reason, message string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Reason, condition.Message
		}
	}
	for _, container := range pod.Status.ContainerStatuses {
		w := container.State.Waiting
		if w == nil || w.Reason == "" {
			continue
		}
		if last := container.LastTerminationState.Terminated; last != nil {
			return w.Reason, describeTermination(last)
		}
		return w.Reason, w.Message
	}
	return "", ""
}

// CrashLoopReason returns the reason that the kubelet gives between two attempts to start
// a container which terminates again and again, with its last words, while such an
// attempt is under way: a container that is not ready and has been restarted that
// often. Both are empty if there is none.
func CrashLoopReason(pod *corev1.Pod, restarts int32) (reason, message string) {
	for _, container := range pod.Status.ContainerStatuses {
		last := container.LastTerminationState.Terminated
		if container.State.Waiting == nil && !container.Ready && container.RestartCount >= restarts && last != nil {
			return "CrashLoopBackOff", describeTermination(last)
		}
	}
	return "", ""
}

// describeTermination says how a container ended.
func describeTermination(last *corev1.ContainerStateTerminated) string {
	if last.Message != "" {
		return fmt.Sprintf("terminated with %q", LastWords(last.Message))
	}
	said := fmt.Sprintf("terminated with exit code %d", last.ExitCode)
	if last.Reason != "" {
		said += " (" + last.Reason + ")"
	}
	return said
}

// LastWords returns the end of what a container said before it terminated: its
// last two lines, in one. Programs often say what happened before they say that
// they cannot go on.
func LastWords(message string) string {
	lines := strings.Split(strings.TrimSpace(message), "\n")
	return strings.Join(lines[max(0, len(lines)-2):], "; ")
}
