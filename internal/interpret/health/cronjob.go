// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"time"

	"github.com/capstan-io/capstan/internal/interpret/fields"
)

// cronJob follows the API of batch/v1. A CronJob does what it is for by being
// there; it is Degraded only if its last run ended without success, which the
// controller tells by a lastSuccessfulTime that is not after lastScheduleTime
// while no job is active.
func cronJob(object map[string]any) Health {
	if fields.Bool(object, "spec", "suspend") {
		return healthy("Suspended", "The cron job is suspended and starts no jobs.")
	}
	if active := len(fields.List(object, "status", "active")); active > 0 {
		return healthy("JobsActive", "%d of its jobs run.", active)
	}
	scheduled := fields.String(object, "status", "lastScheduleTime")
	if scheduled == "" {
		return healthy("NotScheduledYet", "No job was due yet.")
	}
	started, err := time.Parse(time.RFC3339, scheduled)
	if err != nil {
		return Health{Unknown, "StatusNotReadable", "The cron job's lastScheduleTime is not a time."}
	}
	ended, err := time.Parse(time.RFC3339, fields.String(object, "status", "lastSuccessfulTime"))
	if err != nil || ended.Before(started) {
		return degraded("LastJobNotSuccessful", "The job that was due at %s did not succeed.", scheduled)
	}
	return healthy("LastJobSucceeded", "The job that was due at %s succeeded.", scheduled)
}
