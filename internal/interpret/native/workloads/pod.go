// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"fmt"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/interpret/pods"
)

// podHealth follows "Pod Lifecycle" of the Kubernetes documentation: the phase, the
// condition Ready, and the reasons for which containers wait. Kubernetes keeps
// trying what those reasons name, but none of them ends by waiting alone, so
// they are Degraded. A pod without a node is Progressing: a node may come.
func podHealth(object map[string]any) health.Health {
	reason := fields.String(object, "status", "reason")
	message := fields.String(object, "status", "message")
	switch phase := fields.String(object, "status", "phase"); phase {
	case "Succeeded":
		return health.Healthy.WithReason("PodSucceeded", "All containers terminated successfully.")
	case "Failed":
		return podFailed(object, reason, message)
	case "Pending", "Running":
		return podAlive(object, phase)
	case "":
		return health.Progressing.WithReason("PodNotObserved", "The pod has no phase yet.")
	default: // Unknown: its node does not answer
		return health.Unknown.WithReason(health.ReasonOr(reason, "PodPhaseUnknown"), "%s", health.SentenceWithCause("The state of the pod is unknown", message))
	}
}

func podAlive(object map[string]any, phase string) health.Health {
	if c := fields.ConditionOf(object, "PodScheduled"); c.False() {
		return health.Progressing.FromCondition(c, "Unschedulable", "The pod has no node")
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
		return health.Progressing.WithReason("PodPending", "The pod's containers are being started.")
	case c.True():
		return health.Healthy.WithReason("PodReady", "The pod is ready.")
	default:
		return health.Progressing.WithReason("PodNotReady", "%s", health.SentenceWithCause("The pod is running but not ready", c.Message))
	}
}

// containerStuck reports whether a container waits for what does not come by
// itself.
func containerStuck(entry any) (health.Health, bool) {
	container, ok := entry.(map[string]any)
	if !ok {
		return health.Health{}, false
	}
	reason := fields.String(container, "state", "waiting", "reason")
	switch reason {
	case "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError":
	default:
		return health.Health{}, false
	}
	message := fields.String(container, "state", "waiting", "message")
	if reason == "CrashLoopBackOff" {
		if code, ok := fields.Int(container, "lastState", "terminated", "exitCode"); ok {
			message = fmt.Sprintf("terminated with exit code %d, %s; %s", code,
				health.ReasonOr(fields.String(container, "lastState", "terminated", "reason"), "Error"), message)
		}
	}
	return health.Degraded.WithReason(reason, "%s", health.SentenceWithCause(fmt.Sprintf("Container %s cannot run", fields.String(container, "name")), message)), true
}

func podFailed(object map[string]any, reason, message string) health.Health {
	if message == "" {
		for _, entry := range fields.List(object, "status", "containerStatuses") {
			container, ok := entry.(map[string]any)
			if !ok {
				continue
			}
			if code, ok := fields.Int(container, "state", "terminated", "exitCode"); ok && code != 0 {
				message = fmt.Sprintf("container %s terminated with exit code %d", fields.String(container, "name"), code)
				break
			}
		}
	}
	return health.Degraded.WithReason(health.ReasonOr(reason, "PodFailed"), "%s", health.SentenceWithCause("The pod failed", message))
}

// podValues reports PodReady as the text of the condition's status, not as a
// boolean: that is what readers of this value expect.
func podValues(object map[string]any) []interpret.WellKnownValue {
	return []interpret.WellKnownValue{
		{Name: "PodReady", Value: conditionStatus(object, "Ready")},
		{Name: "PodPhase", Value: statusField(object, "phase")},
	}
}

func podComplete(object map[string]any) (done bool, message string) {
	phase := fields.String(object, "status", "phase")
	if phase == "" {
		return false, "The pod has no phase yet."
	}
	return phase == "Succeeded" || phase == "Failed", "The pod is in phase " + phase + "."
}

func podReplicas(object map[string]any) (int32, *interpret.Requirements) {
	return 1, pods.RequirementsFromSpec(fields.Map(object, "spec"))
}

// podHealthVerdict: the pod runs and is ready, or has succeeded.
func podHealthVerdict(object map[string]any) string {
	phase := fields.String(object, "status", "phase")
	return interpret.HealthVerdictIf(phase == "Succeeded" || phase == "Running" && fields.ConditionOf(object, "Ready").True())
}

// podAggregate has the worst phase of all clusters. A pod that has not been
// reported yet is Pending.
func podAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	if len(items) == 0 {
		return nil
	}
	state := map[string]any{"phase": aggregate.MergePhases(items, "Pending", "Failed", "Unknown", "Pending", "Running", "Succeeded")}
	for _, name := range []string{"initContainerStatuses", "containerStatuses"} {
		if all := containerStatuses(aggregate.ReportedItems(items), name); len(all) > 0 {
			state[name] = all
		}
	}
	if conditions := aggregate.MergeConditions(template, items, nil); len(conditions) > 0 {
		state["conditions"] = conditions
	}
	if start := aggregate.EarliestTime(valuesOf(items, "startTime")...); start != nil {
		state["startTime"] = start
	}
	if class := statusField(template, "qosClass"); class != nil { // the API server keeps it
		state["qosClass"] = class
	}
	return state
}

// containerStatuses names containers of several clusters after these, since two
// of one name are one for the API server: a container that has ended in one
// cluster could not be running in the other.
func containerStatuses(reported []interpret.ClusterItem, name string) []any {
	if len(reported) == 1 {
		return fields.List(reported[0].Status, name)
	}
	var all []any
	for _, item := range reported {
		for _, entry := range fields.List(item.Status, name) {
			if container, ok := entry.(map[string]any); ok {
				all = append(all, fields.With(container, item.Cluster+"/"+fields.String(container, "name"), "name"))
			}
		}
	}
	return all
}

func podDependencies(object map[string]any) []interpret.Dependency {
	return neededByPod(fields.Map(object, "spec")).dependenciesIn(object)
}

// podRetained: a scheduler binds the pod to a node of its cluster, and admission
// gives it an account. What admission adds to volumes and containers is not in
// the manifest.
func podRetained(map[string]any) [][]string {
	return [][]string{{"spec", "nodeName"}, {"spec", "serviceAccountName"}, {"spec", "serviceAccount"}}
}
