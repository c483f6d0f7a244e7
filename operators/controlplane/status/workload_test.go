// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func podOf(container corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hub-control-plane", Name: "hub-etcd-0"},
		Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{container}},
	}
}

func TestTroubleNamesThePodAndWhatToDo(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	crashed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no space left on device\n"}}
	killed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}
	unscheduled := podOf(corev1.ContainerStatus{})
	unscheduled.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "pod has unbound immediate PersistentVolumeClaims",
	}}
	going := podOf(corev1.ContainerStatus{State: waiting("ErrImagePull", "")})
	since := metav1.Now()
	going.DeletionTimestamp = &since
	for name, c := range map[string]struct {
		pod    corev1.Pod
		reason string
		want   []string
	}{
		"it starts": {pod: podOf(corev1.ContainerStatus{State: waiting("ContainerCreating", "")})},
		"it goes":   {pod: going},
		"an image cannot be pulled": {
			podOf(corev1.ContainerStatus{State: waiting("ErrImagePull", "not found")}), fleetv1alpha1.ControlPlaneReasonImagePullFailed,
			[]string{`pod "hub-etcd-0"`, "ErrImagePull: not found", "check spec.version"},
		},
		"a volume is missing": {
			unscheduled, fleetv1alpha1.ControlPlaneReasonStorageUnavailable,
			[]string{`pod "hub-etcd-0"`, "unbound immediate PersistentVolumeClaims", "check the PersistentVolumeClaims"},
		},
		"it waits to be started again": {
			podOf(corev1.ContainerStatus{State: waiting("CrashLoopBackOff", "back-off 10s"), RestartCount: 1, LastTerminationState: crashed}),
			fleetv1alpha1.ControlPlaneReasonPodsCrashing,
			[]string{`pod "hub-etcd-0"`, "no space left on device", `"kubectl -n hub-control-plane logs hub-etcd-0 --previous"`},
		},
		"it was started again": {pod: podOf(corev1.ContainerStatus{State: running, RestartCount: 1, LastTerminationState: crashed})},
		"it was started again and again": {
			podOf(corev1.ContainerStatus{State: running, RestartCount: restartsMany, LastTerminationState: killed}),
			fleetv1alpha1.ControlPlaneReasonPodsCrashing,
			[]string{"terminated with exit code 137 (OOMKilled)"},
		},
		"it ended again": {
			podOf(corev1.ContainerStatus{State: crashed, RestartCount: restartsMany, LastTerminationState: killed}),
			fleetv1alpha1.ControlPlaneReasonPodsCrashing,
			[]string{"CrashLoopBackOff"},
		},
		"it is ready after all": {pod: podOf(corev1.ContainerStatus{State: running, Ready: true, RestartCount: 9, LastTerminationState: crashed})},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := findPodTrouble([]corev1.Pod{c.pod})
			if reason != c.reason || (message == "") != (c.reason == "") {
				t.Errorf("got %q: %q, want reason %q", reason, message, c.reason)
			}
			for _, part := range c.want {
				if !strings.Contains(message, part) {
					t.Errorf("%q does not say %q", message, part)
				}
			}
		})
	}
}
