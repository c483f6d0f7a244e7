// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhyNoPodRuns(t *testing.T) {
	container := func(state corev1.ContainerState) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: state}}}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}}
	crashed := container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}})
	crashed.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Message: "no such flag\n"}
	unscheduled := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no nodes"},
	}}}
	agent := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}
	refused := agent.DeepCopy()
	refused.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "quota exceeded"},
	}
	for name, c := range map[string]struct {
		reason     string
		deployment *appsv1.Deployment
		pods       []corev1.Pod
		want       string
	}{
		"no Deployment": {reason: "the operator has not come that far", want: "does not exist yet"},
		"no pod":        {reason: "it takes a moment", deployment: agent, want: `no pod of Deployment "agent" is running yet`},
		"one runs":      {reason: "one is enough", deployment: agent, pods: []corev1.Pod{container(waiting), container(running)}},
		"no image":      {reason: "the registry is what to look at", deployment: agent, pods: []corev1.Pod{container(waiting)}, want: "ImagePullBackOff: no such image"},
		"it crashes":    {reason: "its last words tell why", deployment: agent, pods: []corev1.Pod{crashed}, want: `CrashLoopBackOff: terminated with "no such flag"`},
		"no node":       {reason: "the nodes are what to look at", deployment: agent, pods: []corev1.Pod{unscheduled}, want: "Unschedulable: no nodes"},
		"no pod may be": {reason: "admission is what to look at", deployment: refused, want: "could be created: quota exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			got := WhyNotRunning(c.deployment, c.pods)
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
		})
	}
}

func TestTheEndOfWhatAContainerSaidIsOneLine(t *testing.T) {
	for message, want := range map[string]string{
		"": "", "no space left\n": "no space left",
		"began\nunknown authority\nfailed: deadline exceeded\n": "unknown authority; failed: deadline exceeded",
	} {
		if got := LastWords(message); got != want {
			t.Errorf("of %q there is %q, want %q", message, got, want)
		}
	}
}
