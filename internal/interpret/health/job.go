// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import "github.com/capstan-io/capstan/internal/interpret/fields"

// job follows the API of batch/v1: conditions Complete and Failed end a Job,
// Suspended holds it. kstatus calls a Job that has started Current; here it is
// Progressing until it ends, so that who waits for it waits for its result.
func job(object map[string]any) Health {
	if c := fields.ConditionOf(object, "Failed"); c.True() {
		return degraded(reasonOr(c.Reason, "JobFailed"), "%s", because("The job failed", c.Message))
	}
	succeeded := fields.IntOr(0, object, "status", "succeeded")
	if c := fields.ConditionOf(object, "Complete"); c.True() {
		return healthy("JobComplete", "The job is complete: %d pods succeeded.", succeeded)
	}
	if c := fields.ConditionOf(object, "FailureTarget"); c.True() {
		return degraded(reasonOr(c.Reason, "JobFailed"), "%s", because("The job failed and its pods are ending", c.Message))
	}
	if fields.Bool(object, "spec", "suspend") || fields.ConditionOf(object, "Suspended").True() {
		return progressing("JobSuspended", "The job is suspended.")
	}
	if fields.String(object, "status", "startTime") == "" {
		return progressing("JobNotStarted", "The job has not started.")
	}
	active := fields.IntOr(0, object, "status", "active")
	failed := fields.IntOr(0, object, "status", "failed")
	if want, ok := fields.Int(object, "spec", "completions"); ok {
		return progressing("JobRunning", "%d of %d pods succeeded, %d run, %d failed.", succeeded, want, active, failed)
	}
	return progressing("JobRunning", "%d pods succeeded, %d run, %d failed.", succeeded, active, failed)
}
