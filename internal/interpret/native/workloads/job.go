// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// jobHealth follows the API of batch/v1: conditions Complete and Failed end a Job,
// Suspended holds it. kstatus calls a Job that has started Current; here it is
// Progressing until it ends, so that who waits for it waits for its result.
func jobHealth(object map[string]any) health.Health {
	if c := fields.ConditionOf(object, "Failed"); c.True() {
		return health.Degraded.Of(c, "JobFailed", "The job failed")
	}
	succeeded := fields.IntOr(0, object, "status", "succeeded")
	if c := fields.ConditionOf(object, "Complete"); c.True() {
		return health.Healthy.With("JobComplete", "The job is complete: %d pods succeeded.", succeeded)
	}
	if c := fields.ConditionOf(object, "FailureTarget"); c.True() {
		return health.Degraded.Of(c, "JobFailed", "The job failed and its pods are terminating")
	}
	if fields.Bool(object, "spec", "suspend") || fields.ConditionOf(object, "Suspended").True() {
		return health.Progressing.With("JobSuspended", "The job is suspended.")
	}
	if fields.String(object, "status", "startTime") == "" {
		return health.Progressing.With("JobNotStarted", "The job has not started.")
	}
	active := fields.IntOr(0, object, "status", "active")
	failed := fields.IntOr(0, object, "status", "failed")
	if want, ok := fields.Int(object, "spec", "completions"); ok {
		return health.Progressing.With("JobRunning", "%d of %d pods succeeded, %d running, %d failed.", succeeded, want, active, failed)
	}
	return health.Progressing.With("JobRunning", "%d pods succeeded, %d running, %d failed.", succeeded, active, failed)
}

// jobValues reports JobComplete as the text of the condition's status, not as a
// boolean: that is what readers of this value expect.
func jobValues(object map[string]any) []interpret.Value {
	return []interpret.Value{
		{Name: "JobComplete", Value: conditionStatus(object, "Complete")},
		{Name: "JobSucceeded", Value: status(object, "succeeded")},
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
	replicas := count(1, object, "spec", "parallelism")
	if completions, has := jobCompletions(object); has {
		replicas = min(replicas, completions)
	}
	return replicas, requirements(fields.Map(object, "spec", "template", "spec"))
}

func jobRevise(object map[string]any, replicas int32) map[string]any {
	return fields.With(object, int64(replicas), "spec", "parallelism")
}

func jobCompletions(object map[string]any) (completions int32, has bool) {
	_, has = fields.Int(object, "spec", "completions")
	return count(0, object, "spec", "completions"), has
}

func jobReviseCompletions(object map[string]any, completions int32) map[string]any {
	return fields.With(object, int64(completions), "spec", "completions")
}

// jobPrune takes out the selector and the label by which the API server lets a
// Job find its pods, unless the user chose them: they name the Job's UID. Without
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
	}
	return object
}

// jobReflect leaves out what the controller notes for itself.
func jobReflect(object map[string]any) map[string]any {
	return fields.Only(fields.Map(object, "status"), "active", "succeeded", "failed", "conditions", "startTime", "completionTime")
}
