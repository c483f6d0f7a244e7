// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
)

func TestPodsThatStartAreNotBroken(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	works := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waiting := func(reason string) corev1.ContainerStatus {
		return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
	}
	again := works
	again.RestartCount = 1
	pod := func(age time.Duration, containers ...corev1.ContainerStatus) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.Add(-age))}, Status: corev1.PodStatus{ContainerStatuses: containers}}
	}
	unscheduled := pod(time.Second)
	unscheduled.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}
	goes := pod(time.Hour, works)
	goes.DeletionTimestamp = &metav1.Time{Time: now}
	for name, c := range map[string]struct {
		reason string
		pods   []corev1.Pod
		want   string
	}{
		"it runs since now":        {reason: "the kubelet has not asked it yet", pods: []corev1.Pod{pod(time.Second, works)}, want: "PodsStarting"},
		"its image is pulled":      {reason: "that takes a moment", pods: []corev1.Pod{pod(time.Second, waiting("ContainerCreating"))}, want: "PodsStarting"},
		"no container yet":         {reason: "the kubelet has not seen it yet", pods: []corev1.Pod{pod(0)}, want: "PodsStarting"},
		"by a clock that is ahead": {reason: "clocks differ a little", pods: []corev1.Pod{pod(-time.Second, works)}, want: "PodsStarting"},
		"another one ends":         {reason: "it makes room for the new one", pods: []corev1.Pod{goes, pod(time.Second, works)}, want: "PodsStarting"},
		"it runs for long":         {reason: "it should be ready by now", pods: []corev1.Pod{pod(time.Hour, works)}, want: "PodsNotReady"},
		"it waits for long":        {reason: "a volume may be missing", pods: []corev1.Pod{pod(time.Hour, waiting("ContainerCreating"))}, want: "PodsNotRunning"},
		"it was started again":     {reason: "it has failed once", pods: []corev1.Pod{pod(time.Second, again)}, want: "PodsNotReady"},
		"its image is not there":   {reason: "waiting does not help", pods: []corev1.Pod{pod(time.Second, waiting("ErrImagePull"))}, want: "PodsNotRunning"},
		"it has no node":           {reason: "waiting may not help", pods: []corev1.Pod{unscheduled}, want: "PodsNotRunning"},
		"all end":                  {reason: "nothing starts", pods: []corev1.Pod{goes}, want: "PodsNotReady"},
		"none":                     {reason: "nobody makes any", want: "PodsNotRunning"},
	} {
		t.Run(name, func(t *testing.T) {
			w := evidence.Workload{Namespace: "n", Name: "w"}
			w.Deployment.Found, w.Deployment.Value = true, &appsv1.Deployment{}
			w.Pods.Found, w.Pods.Value = true, &corev1.PodList{Items: c.pods}
			found := deploymentFindings(w, now, "install it")
			if len(found) != 1 || found[0].Reason != c.want || (found[0].State == Odd) != (c.want == "PodsStarting") {
				t.Errorf("%s: got %+v, want %s", c.reason, found, c.want)
			}
		})
	}
}
