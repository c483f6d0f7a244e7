// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// pod follows "Pod Lifecycle" of the Kubernetes documentation: the phase, the
// condition Ready, and the reasons for which containers wait. Kubernetes keeps
// trying what those reasons name, but none of them ends by waiting alone, so
// they are Degraded. A pod without a node is Progressing: a node may come.
func pod(object map[string]any) Health {
	reason, message := fields.String(object, "status", "reason"), fields.String(object, "status", "message")
	switch phase := fields.String(object, "status", "phase"); phase {
	case "Succeeded":
		return healthy("PodSucceeded", "All containers ended with success.")
	case "Failed":
		return podFailed(object, reason, message)
	case "Pending", "Running":
		return podAlive(object, phase)
	case "":
		return progressing("PodNotObserved", "The pod has no phase yet.")
	default: // Unknown: its node does not answer
		return Health{Unknown, reasonOr(reason, "PodPhaseUnknown"), because("The state of the pod is not known", message)}
	}
}

func podAlive(object map[string]any, phase string) Health {
	if c := fields.ConditionOf(object, "PodScheduled"); c.False() {
		return progressing(reasonOr(c.Reason, "Unschedulable"), "%s", because("The pod has no node", c.Message))
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		for _, entry := range fields.List(object, "status", list) {
			if h, ok := containerStuck(entry); ok {
				return h
			}
		}
	}
	c := fields.ConditionOf(object, "Ready")
	switch {
	case phase == "Pending":
		return progressing("PodPending", "The pod's containers are being started.")
	case c.True():
		return healthy("PodReady", "The pod is ready.")
	default:
		return progressing("PodNotReady", "%s", because("The pod runs and is not ready", c.Message))
	}
}

// containerStuck tells whether a container waits for what does not come by
// itself.
func containerStuck(entry any) (Health, bool) {
	container, ok := entry.(map[string]any)
	if !ok {
		return Health{}, false
	}
	reason := fields.String(container, "state", "waiting", "reason")
	switch reason {
	case "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
	default:
		return Health{}, false
	}
	message := fields.String(container, "state", "waiting", "message")
	if reason == "CrashLoopBackOff" {
		if code, ok := fields.Int(container, "lastState", "terminated", "exitCode"); ok {
			message = fmt.Sprintf("it ended with exit code %d, %s; %s", code,
				reasonOr(fields.String(container, "lastState", "terminated", "reason"), "Error"), message)
		}
	}
	return degraded(reason, "%s", because(fmt.Sprintf("Container %s cannot run", fields.String(container, "name")), message)), true
}

func podFailed(object map[string]any, reason, message string) Health {
	if message == "" {
		for _, entry := range fields.List(object, "status", "containerStatuses") {
			container, ok := entry.(map[string]any)
			if !ok {
				continue
			}
			if code, ok := fields.Int(container, "state", "terminated", "exitCode"); ok && code != 0 {
				message = fmt.Sprintf("container %s ended with exit code %d", fields.String(container, "name"), code)
				break
			}
		}
	}
	return degraded(reasonOr(reason, "PodFailed"), "%s", because("The pod failed", message))
}
