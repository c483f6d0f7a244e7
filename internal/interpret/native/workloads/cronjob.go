// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"time"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// cronJobHealth follows the API of batch/v1. A CronJob does what it is for by being
// there; it is Degraded only if its last run ended without success, which the
// controller tells by a lastSuccessfulTime before lastScheduleTime while no job is
// active.
func cronJobHealth(object map[string]any) health.Health {
	if fields.Bool(object, "spec", "suspend") {
		return health.Healthy.WithReason("Suspended", "The cron job is suspended and starts no jobs.")
	}
	if active := len(fields.List(object, "status", "active")); active > 0 {
		return health.Healthy.WithReason("JobsActive", "%d jobs are running.", active)
	}
	scheduled := fields.String(object, "status", "lastScheduleTime")
	if scheduled == "" {
		return health.Healthy.WithReason("NotScheduledYet", "No job has been scheduled yet.")
	}
	started, err := time.Parse(time.RFC3339, scheduled)
	if err != nil {
		return health.Unknown.WithReason("StatusNotReadable", "The cron job's lastScheduleTime is not a time.")
	}
	ended, err := time.Parse(time.RFC3339, fields.String(object, "status", "lastSuccessfulTime"))
	if err != nil || ended.Before(started) {
		return health.Degraded.WithReason("LastJobNotSuccessful", "The job scheduled at %s did not succeed.", scheduled)
	}
	return health.Healthy.WithReason("LastJobSucceeded", "The job scheduled at %s succeeded.", scheduled)
}

func cronJobValues(object map[string]any) []interpret.WellKnownValue {
	values := []interpret.WellKnownValue{
		{Name: "LastScheduleTime", Value: statusField(object, "lastScheduleTime")},
		{Name: "LastSuccessfulTime", Value: statusField(object, "lastSuccessfulTime")},
	}
	// The API server leaves out an empty list, so a status without one means none.
	if state := fields.Map(object, "status"); state != nil {
		values = append(values, interpret.WellKnownValue{Name: "ActiveJobs", Value: int64(len(fields.List(state, "active")))})
	}
	return values
}

func cronJobAggregate(_ map[string]any, items []interpret.ClusterItem) map[string]any {
	if len(items) == 0 {
		return nil
	}
	state := map[string]any{}
	if active := concatenated(items, "active"); len(active) > 0 {
		state["active"] = active
	}
	setLatest(state, items, "lastScheduleTime")
	setLatest(state, items, "lastSuccessfulTime")
	return state
}

func cronJobDependencies(object map[string]any) []interpret.Dependency {
	return neededByPod(fields.Map(object, "spec", "jobTemplate", "spec", "template", "spec")).dependenciesIn(object)
}
