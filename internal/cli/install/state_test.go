// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
)

func TestRolloutIsDoneWhenAllPodsAreOfThePresentState(t *testing.T) {
	deployment := func(observed int64, replicas, updated, available int32) *appsv1.Deployment {
		wanted := int32(2)
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: appsv1.DeploymentSpec{Replicas: &wanted},
			Status: appsv1.DeploymentStatus{ObservedGeneration: observed, Replicas: replicas, UpdatedReplicas: updated, AvailableReplicas: available},
		}
	}
	refused := deployment(3, 0, 0, 0)
	refused.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: "True", Message: "exceeded quota"}}
	cases := map[string]struct {
		deployment *appsv1.Deployment
		why        string // empty when it is done
	}{
		"all run":                         {deployment(3, 2, 2, 2), ""},
		"a change that nobody has seen":   {deployment(2, 2, 2, 2), "controller manager"},
		"one does not run":                {deployment(3, 2, 2, 1), "1 of 2 pods run"},
		"one is of the former state":      {deployment(3, 2, 1, 2), "1 of 2 pods run"},
		"one of the former state is left": {deployment(3, 3, 2, 2), "previous revision"},
		"pods are refused":                {refused, "0 of 2 pods run: exceeded quota"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := rolloutState(c.deployment); got.done != (c.why == "") || !strings.Contains(got.why, c.why) {
				t.Errorf("got %+v, want done %t with %q", got, c.why == "", c.why)
			}
		})
	}
}

func TestInstallersAreTold(t *testing.T) {
	made := func(label, value, manager string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{label: value}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: manager}},
		}}
	}
	cases := map[string]struct {
		object *appsv1.Deployment
		want   Installer
	}{
		"kubectl apply -k":            {made("app.kubernetes.io/part-of", "capstan", "kubectl"), ByCapstan},
		"an earlier make deploy-hub":  {made("app", "cluster-manager", "capstan-deploy"), ByCapstan},
		"OLM, from a bundle of ours":  {&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"olm.owner": "x", "app.kubernetes.io/part-of": "capstan"}}}, ByOLM},
		"Helm, from a chart of ours":  {&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/part-of": "capstan"}}}, ByHelm},
		"Helm, from another chart":    {&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "Helm"}}}, ByOther},
		"an operator of another tool": {made("app", "cluster-manager", "helm"), ByOther},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := InstallerOf(c.object); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestHubWorksWhenItsConditionsSaySo(t *testing.T) {
	hub := func(change func(*operatorv1.ClusterManager)) *operatorv1.ClusterManager {
		condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
			return metav1.Condition{Type: kind, Status: status, Reason: "R" + kind, Message: "message", ObservedGeneration: 2}
		}
		cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: operatorv1.ClusterManagerStatus{
			ObservedGeneration: 2,
			Conditions: []metav1.Condition{
				condition("Applied", metav1.ConditionTrue), condition("Progressing", metav1.ConditionFalse), condition("HubRegistrationDegraded", metav1.ConditionFalse),
			},
		}}
		change(cm)
		return cm
	}
	cases := map[string]struct {
		change func(*operatorv1.ClusterManager)
		why    string // empty when it is done
	}{
		"it works":                 {func(*operatorv1.ClusterManager) {}, ""},
		"nobody has seen it":       {func(cm *operatorv1.ClusterManager) { cm.Status = operatorv1.ClusterManagerStatus{} }, "not started on it"},
		"a change is not seen":     {func(cm *operatorv1.ClusterManager) { cm.Status.ObservedGeneration = 1 }, "has not seen the latest change"},
		"something is not applied": {func(cm *operatorv1.ClusterManager) { cm.Status.Conditions[0].Status = "False" }, "RApplied: message"},
		"pods are rolling":         {func(cm *operatorv1.ClusterManager) { cm.Status.Conditions[1].Status = "True" }, "RProgressing: message"},
		"a word of an earlier change": {func(cm *operatorv1.ClusterManager) {
			cm.Status.Conditions[1] = metav1.Condition{Type: "Progressing", Status: "True", ObservedGeneration: 1}
		}, "has not seen the latest change"},
		"it is paused": {func(cm *operatorv1.ClusterManager) {
			cm.Status.Conditions = append(cm.Status.Conditions, metav1.Condition{Type: "Paused", Status: "True", Message: "it is paused"})
		}, "it is paused"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := hubState(hub(c.change)); got.done != (c.why == "") || !strings.Contains(got.why, c.why) {
				t.Errorf("got %+v, want done %t with %q", got, c.why == "", c.why)
			}
		})
	}
}

func TestAControlPlaneIsWaitedForUnlessSomethingIsWrong(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "message", ObservedGeneration: 2}
	}
	available := condition("Available", metav1.ConditionTrue, "AsExpected")
	kubeconfig := condition("KubeconfigReady", metav1.ConditionTrue, "AsExpected")
	starting := condition("Available", metav1.ConditionFalse, "Installing")
	degraded := func(reason string) metav1.Condition { return condition("Degraded", metav1.ConditionTrue, reason) }
	before := degraded("PortTaken")
	before.ObservedGeneration = 1
	cases := map[string]struct {
		conditions []metav1.Condition
		moving     bool
		why        string // empty when it is done
		stuck      time.Duration
		explained  bool
	}{
		"it works":                    {conditions: []metav1.Condition{available, kubeconfig}},
		"its address changes":         {conditions: []metav1.Condition{available, kubeconfig}, moving: true, why: "address"},
		"nobody has begun":            {why: "not started"},
		"it starts":                   {conditions: []metav1.Condition{starting, kubeconfig}, why: "Installing: message"},
		"the kubeconfig is missing":   {conditions: []metav1.Condition{available}, why: "not started"},
		"pods are missing":            {conditions: []metav1.Condition{starting, kubeconfig, degraded("PodsNotReady")}, why: "PodsNotReady: message"},
		"an image cannot be pulled":   {conditions: []metav1.Condition{starting, degraded("ImagePullFailed")}, why: "ImagePullFailed: message", stuck: podsFail, explained: true},
		"a container crashes":         {conditions: []metav1.Condition{starting, degraded("PodsCrashing")}, why: "PodsCrashing: message", stuck: podsFail, explained: true},
		"a volume is missing":         {conditions: []metav1.Condition{starting, degraded("StorageUnavailable")}, why: "StorageUnavailable: message", stuck: volumesMissing, explained: true},
		"no node has room":            {conditions: []metav1.Condition{starting, degraded("Unschedulable")}, why: "Unschedulable: message", explained: true},
		"one of several crashes":      {conditions: []metav1.Condition{available, kubeconfig, degraded("PodsCrashing")}},
		"one of several is missing":   {conditions: []metav1.Condition{available, kubeconfig, degraded("PodsNotReady")}},
		"the port is taken":           {conditions: []metav1.Condition{starting, degraded("PortTaken")}, why: "PortTaken: message", stuck: mistakeStays, explained: true},
		"it works, against the spec":  {conditions: []metav1.Condition{available, kubeconfig, degraded("UnsupportedVersion")}, why: "UnsupportedVersion: message", stuck: mistakeStays, explained: true},
		"a mistake of an earlier try": {conditions: []metav1.Condition{starting, kubeconfig, before}, why: "Installing: message"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cp := &fleetv1alpha1.ControlPlane{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
			cp.Status.ObservedGeneration, cp.Status.Conditions = 2, c.conditions
			if !c.moving {
				cp.Status.Endpoint = "https://192.0.2.7:30000"
			}
			got, explained := controlPlaneState(cp)
			if got.done != (c.why == "") || !strings.Contains(got.why, c.why) || got.stuck != c.stuck || explained != c.explained {
				t.Errorf("got %+v, explained %t, want done %t with %q, stuck for %s, explained %t", got, explained, c.why == "", c.why, c.stuck, c.explained)
			}
		})
	}
}

func TestNobodyWaitsForWhatNeedsSomebody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hiccup, fails = 30 * time.Second, 2 * time.Minute
		began := time.Now()
		err := Waiter{Timeout: time.Hour}.pollState(t.Context(), "it", "Repair it.", func(context.Context) (waitState, error) {
			if since := time.Since(began); since < hiccup || since > fails {
				return waitState{why: "a container crashes", stuck: podsFail}, nil
			}
			return waitState{why: "it starts"}, nil
		})
		if exit.Code(err) != exit.Failed || !strings.Contains(exit.FormatError(err), "a container crashes\nRepair it.") {
			t.Errorf("the wait ended with %v", err)
		}
		if took := time.Since(began); took < fails+podsFail || took > fails+podsFail+2*lookEvery+time.Second {
			t.Errorf("that took %s, want that it begins anew after a hiccup", took)
		}
	})
}

func TestTroubleOfPodsIsToldOnce(t *testing.T) {
	waiting := func(reason string, last *corev1.ContainerStateTerminated) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", Image: "example.com/i:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
			LastTerminationState: corev1.ContainerState{Terminated: last},
		}}}}
	}
	unscheduled := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Message: "0/3 nodes are available"}}}}
	going := waiting("ImagePullBackOff", nil)
	going.DeletionTimestamp = &metav1.Time{}
	cases := map[string]struct {
		pods []corev1.Pod
		want string
	}{
		"none":                    {nil, ""},
		"only starting":           {[]corev1.Pod{waiting("ContainerCreating", nil)}, ""},
		"going":                   {[]corev1.Pod{going}, ""},
		"no node":                 {[]corev1.Pod{unscheduled, unscheduled}, "the pod cannot be scheduled: 0/3 nodes are available"},
		"no image":                {[]corev1.Pod{waiting("ImagePullBackOff", nil), waiting("ErrImagePull", nil)}, "the image example.com/i:1 cannot be pulled: is it on the nodes, or in a registry that they reach?"},
		"it ends again and again": {[]corev1.Pod{waiting("CrashLoopBackOff", &corev1.ContainerStateTerminated{ExitCode: 2, Message: "no such flag\n"})}, "container c: CrashLoopBackOff: terminated with exit code 2 no such flag"},
		"several reasons":         {[]corev1.Pod{waiting("A", nil), waiting("B", nil), waiting("C", nil), waiting("D", nil)}, "container c: A; container c: B; container c: C; …"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := troubleOf(c.pods); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestWhatKeepsAnObjectIsTold(t *testing.T) {
	object := func(finalizers []string, conditions ...any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
		u.SetFinalizers(finalizers)
		return u
	}
	condition := func(kind, status string) any {
		return map[string]any{"type": kind, "status": status, "message": kind + " message"}
	}
	cases := map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"its operator tells":    {object([]string{"f"}, condition("Applied", "True"), condition("Deleting", "True")), "Deleting message"},
		"the hub tells":         {object([]string{"f"}, condition("Deleting", "False")), "Deleting message"},
		"a namespace with rest": {object(nil, condition("NamespaceDeletionDiscoveryFailure", "False"), condition("NamespaceContentRemaining", "True")), "NamespaceContentRemaining message"},
		"nobody tells":          {object([]string{"a", "b"}), "it waits for a, b"},
		"nothing is known":      {object(nil), "it is being deleted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := remainingReason(c.object); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
