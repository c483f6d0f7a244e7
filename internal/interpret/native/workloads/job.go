// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"slices"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
	"github.com/capstan-io/capstan/internal/interpret/pods"
)

// jobHealth follows the API of batch/v1: conditions Complete and Failed end a Job,
// Suspended holds it. kstatus calls a Job that has started Current; here it is
// Progressing until it ends, so that who waits for it waits for its result.
func jobHealth(object map[string]any) health.Health {
	if c := fields.ConditionOf(object, "Failed"); c.True() {
		return health.Degraded.FromCondition(c, "JobFailed", "The job failed")
	}
	succeeded := fields.IntOr(0, object, "status", "succeeded")
	if c := fields.ConditionOf(object, "Complete"); c.True() {
		return health.Healthy.WithReason("JobComplete", "The job is complete: %d pods succeeded.", succeeded)
	}
	if c := fields.ConditionOf(object, "FailureTarget"); c.True() {
		return health.Degraded.FromCondition(c, "JobFailed", "The job failed and its pods are terminating")
	}
	if fields.Bool(object, "spec", "suspend") || fields.ConditionOf(object, "Suspended").True() {
		return health.Progressing.WithReason("JobSuspended", "The job is suspended.")
	}
	if fields.String(object, "status", "startTime") == "" {
		return health.Progressing.WithReason("JobNotStarted", "The job has not started.")
	}
	active := fields.IntOr(0, object, "status", "active")
	failed := fields.IntOr(0, object, "status", "failed")
	if want, ok := fields.Int(object, "spec", "completions"); ok {
		return health.Progressing.WithReason("JobRunning", "%d of %d pods succeeded, %d running, %d failed.", succeeded, want, active, failed)
	}
	return health.Progressing.WithReason("JobRunning", "%d pods succeeded, %d running, %d failed.", succeeded, active, failed)
}

// jobValues reports JobComplete as the text of the condition's status, not as a
// boolean: that is what readers of this value expect.
func jobValues(object map[string]any) []interpret.WellKnownValue {
	return []interpret.WellKnownValue{
		{Name: "JobComplete", Value: conditionStatus(object, "Complete")},
		{Name: "JobSucceeded", Value: statusField(object, "succeeded")},
	}
}

func jobComplete(object map[string]any) (done bool, message string) {
	switch {
	case fields.ConditionOf(object, "Complete").True():
		return true, "The job is finished: it is complete."
	case fields.ConditionOf(object, "Failed").True():
		return true, "The job is finished: it failed."
	}
	return false, "The job is not finished."
}

// jobReplicas returns how many pods run at the same time at most: parallelism,
// but no more than have to succeed.
func jobReplicas(object map[string]any) (int32, *interpret.Requirements) {
	replicas := podCount(1, object, "spec", "parallelism")
	if completions, has := jobCompletions(object); has {
		replicas = min(replicas, completions)
	}
	return replicas, pods.RequirementsFromSpec(fields.Map(object, "spec", "template", "spec"))
}

func jobRevise(object map[string]any, replicas int32) map[string]any {
	return fields.With(object, int64(replicas), "spec", "parallelism")
}

func jobCompletions(object map[string]any) (completions int32, has bool) {
	_, has = fields.Int(object, "spec", "completions")
	return podCount(0, object, "spec", "completions"), has
}

func jobReviseCompletions(object map[string]any, completions int32) map[string]any {
	return fields.With(object, int64(completions), "spec", "completions")
}

func jobIndexed(object map[string]any) bool {
	return fields.String(object, "spec", "completionMode") == "Indexed"
}

// jobPrune takes out the selector and the label by which the API server lets a
// Job find its pods, unless the user chose them: they name the Job's UID. A Job without
// labels shows those of its pods. Without
// ttlSecondsAfterFinished no cluster deletes a finished Job, which would be made
// and run again.
func jobPrune(object map[string]any) map[string]any {
	object = fields.Without(object, "spec", "ttlSecondsAfterFinished")
	if fields.Bool(object, "spec", "manualSelector") {
		return object
	}
	object = fields.Without(object, "spec", "selector")
	for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
		object = fields.Without(object, "spec", "template", "metadata", "labels", label)
		object = fields.Without(object, "metadata", "labels", label)
	}
	return object
}

// jobReflect leaves out what the controller notes for itself.
func jobReflect(object map[string]any) map[string]any {
	return fields.Only(fields.Map(object, "status"), "active", "succeeded", "failed", "conditions", "startTime", "completionTime")
}

// jobAggregate follows what the API server wants of a Job that has ended: no pod
// is active, both its times are set, and it says before that it will fail. So
// FailureTarget is True as soon as the Job fails in one cluster, and Failed when
// it has ended in all. It is Complete if it is so everywhere. What has ended
// stays as it is, and no count of ended pods goes down.
func jobAggregate(template map[string]any, items []interpret.ClusterItem) map[string]any {
	if done, _ := jobComplete(template); done || len(items) == 0 {
		return nil
	}
	state := map[string]any{}
	aggregate.SumCounters(state, items, "active", "succeeded", "failed")
	for _, name := range []string{"succeeded", "failed"} {
		if before := fields.IntOr(0, template, "status", name); before > fields.IntOr(0, state, name) {
			state[name] = before
		}
	}
	start := statusField(template, "startTime")
	if start == nil {
		start = aggregate.EarliestTime(valuesOf(items, "startTime")...)
	}
	if start != nil {
		state["startTime"] = start
	}
	if conditions := jobConditions(template, items, state); len(conditions) > 0 {
		state["conditions"] = conditions
	}
	return state
}

// jobConditions sets completionTime as well, if it makes the Job Complete.
func jobConditions(template map[string]any, items []interpret.ClusterItem, state map[string]any) []any {
	items = slices.Clone(items)
	for i := range items {
		items[i].Health = "" // a Job that has ended does not run again while its cluster is silent
	}
	before := fields.List(template, "status", "conditions")
	merged := aggregate.MergeConditions(template, items, nil)
	var conditions []any
	if c := aggregate.ConditionOf(merged, "Suspended"); c["status"] == "True" {
		conditions = append(conditions, c)
	}
	complete := jobsWith(items, "Complete")
	failed := jobsWith(items, "Failed")
	started := state["startTime"] != nil
	still := fields.IntOr(0, state, "active") > 0
	if target := jobFailing(before, merged); target != nil {
		conditions = append(conditions, target)
		if len(complete)+len(failed) == len(items) && started && !still {
			conditions = append(conditions, fields.With(target, "Failed", "type"))
		}
		return conditions
	}
	end := aggregate.LatestTime(valuesOf(items, "completionTime")...)
	if len(complete) == len(items) && started && !still && end != nil {
		state["completionTime"] = end
		c := aggregate.ConditionOf(merged, "Complete")
		conditions = append(conditions, c, fields.With(c, "SuccessCriteriaMet", "type"))
	}
	return conditions
}

// jobFailing returns condition FailureTarget if the Job fails, nil if it does
// not. It cannot be taken back, even if the cluster where it failed has gone.
func jobFailing(before, merged []any) map[string]any {
	had := aggregate.ConditionOf(before, "FailureTarget")
	for _, name := range []string{"Failed", "FailureTarget"} {
		if c := aggregate.ConditionOf(merged, name); c["status"] == "True" {
			c = fields.With(c, "FailureTarget", "type")
			if at := had["lastTransitionTime"]; at != nil && had["status"] == "True" {
				c["lastTransitionTime"] = at
			}
			return c
		}
	}
	if had["status"] == "True" {
		return had
	}
	return nil
}

// jobsWith returns the items of which a condition is True.
func jobsWith(items []interpret.ClusterItem, name string) []interpret.ClusterItem {
	return slices.DeleteFunc(slices.Clone(items), func(i interpret.ClusterItem) bool {
		return aggregate.ConditionOf(fields.List(i.Status, "conditions"), name)["status"] != "True"
	})
}

// jobRetained are the selector and the labels that the API server of the cluster
// generates, unless the user chose them.
func jobRetained(manifest map[string]any) [][]string {
	if fields.Bool(manifest, "spec", "manualSelector") {
		return nil
	}
	retained := [][]string{{"spec", "selector"}}
	for _, label := range []string{"controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name"} {
		retained = append(retained, []string{"spec", "template", "metadata", "labels", label})
	}
	return retained
}
