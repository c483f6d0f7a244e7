// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/pods"
)

// troublesMax is how many different reasons of pods are told.
const troublesMax = 3

// rolloutState tells how far a Deployment is.
func rolloutState(d *appsv1.Deployment) waitState {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	status := d.Status
	switch {
	case status.ObservedGeneration < d.Generation:
		return waitState{why: "the controller manager of the cluster has not seen it yet"}
	case status.UpdatedReplicas < wanted || status.AvailableReplicas < wanted:
		s := waitState{why: fmt.Sprintf("%d of %d pods run", min(status.UpdatedReplicas, status.AvailableReplicas), wanted)}
		for _, c := range status.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				s.why += ": " + c.Message
			}
		}
		return s
	case status.Replicas > status.UpdatedReplicas:
		return waitState{why: "pods of the previous revision still exist"}
	default:
		return waitState{done: true}
	}
}

// hubState tells how far a hub is.
func hubState(cm *operatorv1.ClusterManager) waitState {
	return conditionState(cm.Generation, cm.Status.ObservedGeneration, cm.Status.Conditions, []wanted{
		{operatorv1.ClusterManagerConditionApplied, metav1.ConditionTrue},
		{operatorv1.ClusterManagerConditionProgressing, metav1.ConditionFalse},
		{operatorv1.ClusterManagerConditionHubRegistrationDegraded, metav1.ConditionFalse},
	})
}

// mistakes are the reasons for which a control plane does not get on until
// somebody changes its spec or something around it.
var mistakes = map[string]bool{
	fleetv1alpha1.ControlPlaneReasonStorageUnavailable:   true,
	fleetv1alpha1.ControlPlaneReasonPortTaken:            true,
	fleetv1alpha1.ControlPlaneReasonExternalEtcdInvalid:  true,
	fleetv1alpha1.ControlPlaneReasonUnsupportedVersion:   true,
	fleetv1alpha1.ControlPlaneReasonAuditPolicyMissing:   true,
	fleetv1alpha1.ControlPlaneReasonNameInUse:            true,
	fleetv1alpha1.ControlPlaneReasonRetainedDataMismatch: true,
	fleetv1alpha1.ControlPlaneReasonMissingPermissions:   true,
}

const (
	// mistakeStays is how long a mistake may be there: who has just repaired it is
	// given the time that this takes to be seen.
	mistakeStays = 15 * time.Second
	// podsFail is how long pods may fail: a registry may hiccup, and a container may
	// be started once more a little later.
	podsFail = 45 * time.Second
	// volumesMissing is how long volumes may be missing: some take a while to be
	// provisioned.
	volumesMissing = 90 * time.Second
)

// stuckFor returns how long a control plane may be degraded for a reason until it
// is taken for stuck, zero if it may get on by itself: nodes that take a pod, for
// example, may be added for it.
func stuckFor(reason string) time.Duration {
	switch {
	case reason == fleetv1alpha1.ControlPlaneReasonStorageUnavailable:
		return volumesMissing
	case reason == fleetv1alpha1.ControlPlaneReasonImagePullFailed, reason == fleetv1alpha1.ControlPlaneReasonPodsCrashing:
		return podsFail
	case mistakes[reason]:
		return mistakeStays
	default:
		return 0
	}
}

// controlPlaneState tells how far a control plane is, and whether its operator has
// explained why it does not get on.
func controlPlaneState(cp *fleetv1alpha1.ControlPlane) (s waitState, explained bool) {
	conditions := cp.Status.Conditions
	s = conditionState(cp.Generation, cp.Status.ObservedGeneration, conditions, []wanted{
		{fleetv1alpha1.ControlPlaneConditionAvailable, metav1.ConditionTrue},
		{fleetv1alpha1.ControlPlaneConditionKubeconfigReady, metav1.ConditionTrue},
	})
	wrong := meta.FindStatusCondition(conditions, fleetv1alpha1.ControlPlaneConditionDegraded)
	if wrong != nil && wrong.Status == metav1.ConditionTrue && wrong.ObservedGeneration >= cp.Generation && (!s.done || mistakes[wrong.Reason]) {
		return waitState{why: fmt.Sprintf("%s: %s", wrong.Reason, wrong.Message), stuck: stuckFor(wrong.Reason)}, wrong.Reason != fleetv1alpha1.ControlPlaneReasonPodsNotReady
	}
	if s.done && cp.Status.Endpoint == "" {
		return waitState{why: "its API servers do not have a certificate for their address yet"}, false
	}
	return s, false
}

// agentState tells how far the agents of a member are.
func agentState(k *operatorv1.Klusterlet) waitState {
	return conditionState(k.Generation, k.Status.ObservedGeneration, k.Status.Conditions, []wanted{
		{operatorv1.KlusterletConditionApplied, metav1.ConditionTrue},
		{operatorv1.KlusterletConditionAvailable, metav1.ConditionTrue},
	})
}

// wanted is a condition as it has to be.
type wanted struct {
	condition string
	status    metav1.ConditionStatus
}

func conditionState(generation, observed int64, conditions []metav1.Condition, all []wanted) waitState {
	if paused := meta.FindStatusCondition(conditions, operatorv1.ClusterManagerConditionPaused); paused != nil {
		return waitState{why: paused.Message}
	}
	for _, w := range all {
		c := meta.FindStatusCondition(conditions, w.condition)
		if c != nil && c.Status != w.status && c.ObservedGeneration >= generation {
			return waitState{why: fmt.Sprintf("%s: %s", c.Reason, c.Message)}
		}
		if c == nil {
			return waitState{why: "its operator has not started on it yet"}
		}
		if c.Status != w.status {
			return waitState{why: "its operator has not seen the latest change yet"}
		}
	}
	if observed < generation {
		return waitState{why: "its operator has not seen the latest change yet"}
	}
	return waitState{done: true}
}

// troubleOf tells why pods do not run: each reason once, of those that do not
// pass by themselves within seconds.
func troubleOf(list []corev1.Pod) string {
	var reasons []string
	for i := range list {
		reason := podTrouble(&list[i])
		if reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	if len(reasons) > troublesMax {
		reasons = append(reasons[:troublesMax], "…")
	}
	return strings.Join(reasons, "; ")
}

func podTrouble(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return ""
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "the pod cannot be scheduled: " + c.Message
		}
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := container.State.Waiting
		if waiting == nil || waiting.Reason == "ContainerCreating" || waiting.Reason == "PodInitializing" {
			continue
		}
		text := fmt.Sprintf("container %s: %s", container.Name, waiting.Reason)
		// The two words for it take turns.
		if waiting.Reason == "ErrImagePull" || waiting.Reason == "ImagePullBackOff" {
			text = fmt.Sprintf("the image %s cannot be pulled: is it on the nodes, or in a registry that they reach?", container.Image)
		}
		if last := container.LastTerminationState.Terminated; last != nil {
			return fmt.Sprintf("%s: terminated with exit code %d %s", text, last.ExitCode, pods.LastWords(last.Message))
		}
		return text
	}
	return ""
}

// remainingReason tells why an object that is being deleted is still there.
func remainingReason(object *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	var told []string
	for _, entry := range conditions {
		c, _ := entry.(map[string]any)
		kind, _ := c["type"].(string)
		message, _ := c["message"].(string)
		status, _ := c["status"].(string)
		reason, _ := c["reason"].(string)
		// Of the several of a namespace or a definition those count that are true;
		// our kinds have one, which is not true while there is something to wait for.
		ours := kind == operatorv1.ClusterManagerConditionDeleting || reason == fleetv1alpha1.ControlPlaneReasonRemoving
		others := (strings.HasPrefix(kind, "Namespace") || strings.Contains(kind, "Terminating")) && status == string(metav1.ConditionTrue)
		if (ours || others) && message != "" {
			told = append(told, message)
		}
	}
	if len(told) == 0 && len(object.GetFinalizers()) > 0 {
		told = append(told, "it waits for "+strings.Join(object.GetFinalizers(), ", "))
	}
	if len(told) == 0 {
		return "it is being deleted"
	}
	return strings.Join(told, "; ")
}
