// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/operator/pods"
)

// deploymentFindings says why the pods of a Deployment do not run. A Deployment that is to
// have none is in order.
func deploymentFindings(w evidence.Workload, now time.Time, absent string) []Finding {
	object := fmt.Sprintf("Deployment %s/%s", w.Namespace, w.Name)
	switch {
	case w.Deployment.Err != nil:
		return []Finding{unseenFinding(object, w.Deployment.Err)}
	case w.Deployment.IsAbsent():
		return []Finding{brokenFinding("DeploymentMissing", object, "it is not there", absent)}
	case w.Pods.Err != nil:
		return []Finding{unseenFinding("the pods of "+object, w.Pods.Err)}
	}
	deployment := w.Deployment.Value
	wanted := int32(1)
	if deployment.Spec.Replicas != nil {
		wanted = *deployment.Spec.Replicas
	}
	if wanted == 0 || deployment.Status.AvailableReplicas >= wanted {
		return nil
	}
	look := fmt.Sprintf("Check it: kubectl -n %s describe pods -l app=%s; kubectl -n %s logs deployment/%s --tail=20",
		w.Namespace, deployment.Spec.Template.Labels["app"], w.Namespace, w.Name)
	if w.Pods.Found && arePodsStarting(w.Pods.Value.Items, now) {
		return []Finding{oddFinding("PodsStarting", object, "its pods were just created and are starting", "Run the command again in a minute.")}
	}
	if w.Pods.Found {
		if why := pods.WhyNotRunning(deployment, w.Pods.Value.Items); why != "" {
			return []Finding{brokenFinding("PodsNotRunning", object, why, look)}
		}
	}
	if deployment.Status.AvailableReplicas == 0 {
		return []Finding{brokenFinding("PodsNotReady", object, "its pods are running but not ready", look)}
	}
	return []Finding{oddFinding("PodsMissing", object, fmt.Sprintf("%d of %d pods are available", deployment.Status.AvailableReplicas, wanted), look)}
}

// arePodsStarting reports whether all pods that are to stay are new and nothing has gone
// wrong with them yet. The kubelet asks a container whether it is ready every few
// seconds, so one that works may not be ready yet.
func arePodsStarting(all []corev1.Pod, now time.Time) bool {
	stay := slices.DeleteFunc(slices.Clone(all), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	return len(stay) > 0 && !slices.ContainsFunc(stay, func(p corev1.Pod) bool {
		// The clocks of the hub and of a member may differ a little.
		return now.Sub(p.CreationTimestamp.Time).Abs() >= soon ||
			slices.ContainsFunc(p.Status.Conditions, unscheduled) || slices.ContainsFunc(p.Status.ContainerStatuses, hasContainerFailed)
	})
}

func unscheduled(c corev1.PodCondition) bool {
	return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
}

// hasContainerFailed reports whether a container has ended, or waits for something else than
// its start.
func hasContainerFailed(c corev1.ContainerStatus) bool {
	waits := c.State.Waiting
	return c.RestartCount > 0 || c.State.Terminated != nil || waits != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waits.Reason)
}

// requiredDeploymentFindings is running for a Deployment that has to have pods.
func requiredDeploymentFindings(w evidence.Workload, now time.Time, absent string) []Finding {
	if w.Deployment.Found && w.Deployment.Value.Spec.Replicas != nil && *w.Deployment.Value.Spec.Replicas == 0 {
		return []Finding{brokenFinding("ScaledToZero", fmt.Sprintf("Deployment %s/%s", w.Namespace, w.Name), "somebody has scaled it to 0, so it has no pods",
			fmt.Sprintf("kubectl -n %s scale deployment/%s --replicas=1", w.Namespace, w.Name))}
	}
	return deploymentFindings(w, now, absent)
}

// missingObjectFindings tells which of the objects are known not to be there.
func missingObjectFindings(objects []evidence.ObjectPresence, reason, cause, next string) []Finding {
	var found []Finding
	for _, o := range objects {
		name := o.Name
		if o.Namespace != "" {
			name = o.Namespace + "/" + name
		}
		switch {
		case o.Reading.Err != nil:
			found = append(found, unseenFinding(o.Kind+" "+name, o.Reading.Err))
		case o.Reading.IsAbsent():
			found = append(found, brokenFinding(reason, o.Kind+" "+name, cause, next))
		}
	}
	return found
}
