// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
)

// unscheduled is a pod that no node takes.
func unscheduled(why string) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why,
	}}}}
}

// waiting is a pod with a container that waits, after its last words.
func waiting(reason, message, last string) corev1.Pod {
	return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: last}},
	}}}}
}

// TestPodsSayWhyTheyDoNotRun looks at the conditions while the API server has
// none of its pods ready.
func TestPodsSayWhyTheyDoNotRun(t *testing.T) {
	for name, test := range map[string]struct {
		reason    string
		pods      []corev1.Pod
		condition appsv1.DeploymentCondition
		want      string
		message   string
	}{
		"OnTheirWay": {
			reason: "a pod that says nothing is only not ready",
			pods:   []corev1.Pod{{}}, want: fleetv1alpha1.ControlPlaneReasonPodsNotReady, message: "0 of 1 pods ready",
		},
		"NoImage": {
			reason: "the fields that name images are what to look at",
			pods:   []corev1.Pod{waiting("ErrImagePull", "not found", "")},
			want:   fleetv1alpha1.ControlPlaneReasonImagePullFailed, message: "check spec.version, spec.imageRegistry, spec.images and spec.imagePullSecrets",
		},
		"Crashing": {
			reason: "its last words say why",
			pods:   []corev1.Pod{waiting("CrashLoopBackOff", "back-off 5m0s", "no such flag")},
			want:   fleetv1alpha1.ControlPlaneReasonPodsCrashing, message: "no such flag",
		},
		"NoNode": {
			reason: "the placement is what to look at",
			pods:   []corev1.Pod{unscheduled("0/3 nodes are available")},
			want:   fleetv1alpha1.ControlPlaneReasonUnschedulable, message: "check spec.placement and the resources of the nodes",
		},
		"NoVolume": {
			reason: "a volume that is missing keeps a pod from being scheduled as well",
			pods:   []corev1.Pod{unscheduled("pod has unbound immediate PersistentVolumeClaims")},
			want:   fleetv1alpha1.ControlPlaneReasonStorageUnavailable, message: "check the PersistentVolumeClaims",
		},
		"NoPod": {
			reason:    "a quota of the namespace, for example",
			condition: appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"},
			want:      fleetv1alpha1.ControlPlaneReasonPodsNotReady, message: "no pod can be created: exceeded quota",
		},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)}}
			deployment.Status.Conditions = []appsv1.DeploymentCondition{test.condition}
			workload := WorkloadFromDeployment(deployment, test.pods)
			conditions := DeriveConditions(ControlPlaneFacts{APIServer: &workload, Outcome: install.PassOutcome{Result: install.Done}})
			for _, kind := range []string{fleetv1alpha1.ControlPlaneConditionAPIServerReady, fleetv1alpha1.ControlPlaneConditionDegraded} {
				expect(t, conditions, kind, test.want, test.message, test.reason)
			}
		})
	}
}

// expect compares the reason of a condition.
func expect(t *testing.T, conditions []metav1.Condition, kind, reason, message, why string) {
	t.Helper()
	got := meta.FindStatusCondition(conditions, kind)
	if got == nil || got.Reason != reason || !strings.Contains(got.Message, message) {
		t.Errorf("%s: condition %s is %+v, want reason %s and %q in the message", why, kind, got, reason, message)
	}
}

func TestCertificatesThatWereNotRenewedInTimeAreReported(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		left    time.Duration
		want    string
		message string
	}{
		"Fresh":   {30 * 24 * time.Hour, fleetv1alpha1.ControlPlaneReasonAsExpected, "all certificates are valid"},
		"Late":    {expiresSoon, fleetv1alpha1.ControlPlaneReasonExpiresSoon, `"late" expires at`},
		"TooLate": {0, fleetv1alpha1.ControlPlaneReasonExpiresSoon, `"late" expired at`},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := DeriveConditions(ControlPlaneFacts{Now: now, Certificates: []fleetv1alpha1.ControlPlaneCertificate{
				{Name: "early", Expires: metav1.NewTime(now.Add(10 * 365 * 24 * time.Hour))}, {Name: "late", Expires: metav1.NewTime(now.Add(test.left))},
			}})
			expect(t, conditions, fleetv1alpha1.ControlPlaneConditionCertificatesValid, test.want, test.message, name)
		})
	}
}

// TestWhatKeepsAWalkFromItsEndIsReported has the walks that end early.
func TestWhatKeepsAWalkFromItsEndIsReported(t *testing.T) {
	const (
		degraded, progressing = fleetv1alpha1.ControlPlaneConditionDegraded, fleetv1alpha1.ControlPlaneConditionProgressing
		installing            = fleetv1alpha1.ControlPlaneReasonInstalling
	)
	for name, test := range map[string]struct {
		reason  string
		facts   ControlPlaneFacts
		kind    string
		want    string
		message string
	}{
		"Failed": {
			reason: "a phase without a reason of its own", kind: degraded, want: fleetv1alpha1.ControlPlaneReasonApplyFailed, message: "no space left",
			facts: ControlPlaneFacts{Outcome: install.PassOutcome{Result: install.Failed, Message: "no space left"}},
		},
		"Waiting": {
			reason: "what comes by itself is nothing wrong", kind: degraded, want: fleetv1alpha1.ControlPlaneReasonAsExpected,
			facts: ControlPlaneFacts{Outcome: install.PassOutcome{Result: install.Waiting, Reason: installing, Message: "waiting for etcd"}},
		},
		"WaitingInVain": {
			reason: "what may never come is", kind: degraded, want: fleetv1alpha1.ControlPlaneReasonNoAddress, message: "no address",
			facts: ControlPlaneFacts{Outcome: install.PassOutcome{Result: install.Waiting, Reason: fleetv1alpha1.ControlPlaneReasonNoAddress, Message: "no address"}},
		},
		"Upgrading": {
			reason: "the first installation is no upgrade", kind: progressing, want: fleetv1alpha1.ControlPlaneReasonUpgrading, message: "waiting for the API server",
			facts: ControlPlaneFacts{Upgrading: "from a to b", Outcome: install.PassOutcome{Result: install.Waiting, Message: "waiting for the API server"}},
		},
		"Stopped": {
			reason: "nothing goes on by itself", kind: progressing, want: fleetv1alpha1.ControlPlaneReasonUnsupportedVersion, message: "condition Degraded says why",
			facts: ControlPlaneFacts{Outcome: install.PassOutcome{Result: install.Mistake, Reason: fleetv1alpha1.ControlPlaneReasonUnsupportedVersion, Message: "too new"}},
		},
		"Done": {
			reason: "there is nothing to report", kind: degraded, want: fleetv1alpha1.ControlPlaneReasonAsExpected,
			facts: ControlPlaneFacts{Outcome: install.PassOutcome{Result: install.Done}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, DeriveConditions(test.facts), test.kind, test.want, test.message, test.reason)
		})
	}
}
