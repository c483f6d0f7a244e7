// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/pods"
)

// WorkloadStatus is how far the pods of a component are.
type WorkloadStatus struct {
	// Name is that of the StatefulSet or Deployment, with its kind.
	Name string
	// Wanted, Ready and Updated are numbers of pods; Updated are those that are as
	// wanted now, and ready.
	Wanted, Ready, Updated int32
	// Settled is false while pods of an earlier state are there.
	Settled bool
	// Former is how many pods have another image than is wanted, also of those that
	// terminate, which serve a little longer and are counted nowhere else.
	Former int
	// Reason and Message say what keeps a pod from running; empty if nothing does.
	Reason, Message string
}

// AllPodsCurrent reports whether all pods are as wanted.
func (w WorkloadStatus) AllPodsCurrent() bool {
	return w.Settled && w.Wanted > 0 && w.Updated >= w.Wanted
}

func (w WorkloadStatus) String() string {
	text := fmt.Sprintf("%s has %d of %d pods ready", w.Name, w.Ready, w.Wanted)
	if w.Former > 0 {
		text += fmt.Sprintf(", and %d with another image", w.Former)
	}
	if w.Message != "" {
		text += ": " + w.Message
	}
	return text
}

// WorkloadFromDeployment says how far a Deployment with the pods is.
func WorkloadFromDeployment(d *appsv1.Deployment, list []corev1.Pod) WorkloadStatus {
	w := WorkloadStatus{
		Name: fmt.Sprintf("Deployment %q", d.Name), Ready: d.Status.ReadyReplicas,
		Updated: min(d.Status.UpdatedReplicas, d.Status.AvailableReplicas),
	}
	if d.Spec.Replicas != nil {
		w.Wanted = *d.Spec.Replicas
	}
	w.Settled = d.Status.ObservedGeneration >= d.Generation && d.Status.Replicas <= d.Status.UpdatedReplicas
	for i := range list {
		if podImage(list[i].Spec) != podImage(d.Spec.Template.Spec) {
			w.Former++
		}
	}
	w.Reason, w.Message = findPodTrouble(list)
	for _, condition := range d.Status.Conditions {
		if w.Reason == "" && condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			w.Reason = fleetv1alpha1.ControlPlaneReasonPodsNotReady
			w.Message = "no pod can be created: " + condition.Message
		}
	}
	return w
}

// podImage is that of the program of a component, whose pods have one container.
func podImage(spec corev1.PodSpec) string {
	if len(spec.Containers) == 0 {
		return ""
	}
	return spec.Containers[0].Image
}

// WorkloadFromStatefulSet says how far a StatefulSet with the pods is.
func WorkloadFromStatefulSet(s *appsv1.StatefulSet, list []corev1.Pod) WorkloadStatus {
	w := WorkloadStatus{Name: fmt.Sprintf("StatefulSet %q", s.Name), Ready: s.Status.ReadyReplicas}
	if s.Spec.Replicas != nil {
		w.Wanted = *s.Spec.Replicas
	}
	current := s.Status.CurrentRevision == s.Status.UpdateRevision
	w.Updated = min(s.Status.UpdatedReplicas, s.Status.ReadyReplicas)
	if current {
		w.Updated = s.Status.ReadyReplicas // it does not count them once all are
	}
	w.Settled = s.Status.ObservedGeneration >= s.Generation && current
	w.Reason, w.Message = findPodTrouble(list)
	return w
}

// restartsMany is after how many restarts a container that is not ready crashes,
// though it runs just now: what it did before tells more.
const restartsMany = 3

// findPodTrouble returns what keeps the first pod that says so from running. A pod that
// is only on its way says nothing.
func findPodTrouble(list []corev1.Pod) (reason, message string) {
	sorted := slices.Clone(list)
	slices.SortFunc(sorted, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	for i := range sorted {
		if !sorted[i].DeletionTimestamp.IsZero() {
			continue
		}
		why, text := pods.WaitingReason(&sorted[i])
		if why == "" {
			why, text = pods.CrashLoopReason(&sorted[i], restartsMany)
		}
		if reason := podTroubleReason(why, text); reason != "" {
			return reason, fmt.Sprintf("pod %q: %s", sorted[i].Name, podTroubleAdvice(&sorted[i], reason, why, text))
		}
	}
	return "", ""
}

func podTroubleReason(why, text string) string {
	switch why {
	case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable":
		return fleetv1alpha1.ControlPlaneReasonImagePullFailed
	case "CrashLoopBackOff", "RunContainerError", "CreateContainerError", "CreateContainerConfigError":
		return fleetv1alpha1.ControlPlaneReasonPodsCrashing
	case corev1.PodReasonUnschedulable:
		if strings.Contains(text, "PersistentVolumeClaim") {
			return fleetv1alpha1.ControlPlaneReasonStorageUnavailable
		}
		return fleetv1alpha1.ControlPlaneReasonUnschedulable
	default:
		return ""
	}
}

// podTroubleAdvice says what happened and what to do about it.
func podTroubleAdvice(pod *corev1.Pod, reason, why, text string) string {
	said := why
	if text != "" {
		said += ": " + text
	}
	switch reason {
	case fleetv1alpha1.ControlPlaneReasonImagePullFailed:
		return said + "; check spec.version, spec.imageRegistry, spec.images and spec.imagePullSecrets"
	case fleetv1alpha1.ControlPlaneReasonStorageUnavailable:
		return said + "; check the PersistentVolumeClaims and the StorageClass in spec.etcd.managed.storage"
	case fleetv1alpha1.ControlPlaneReasonUnschedulable:
		return said + "; check spec.placement and the resources of the nodes"
	case fleetv1alpha1.ControlPlaneReasonPodsCrashing:
		return fmt.Sprintf("%s; \"kubectl -n %s logs %s --previous\" shows more", said, pod.Namespace, pod.Name)
	default:
		return said
	}
}
