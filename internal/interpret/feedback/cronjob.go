// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

import "github.com/capstan-io/capstan/internal/interpret/fields"

func cronJob(object map[string]any) []found {
	values := []found{
		{"LastScheduleTime", status(object, "lastScheduleTime")},
		{"LastSuccessfulTime", status(object, "lastSuccessfulTime")},
	}
	// The API server leaves out an empty list, so a status without one means none.
	if state := fields.Map(object, "status"); state != nil {
		values = append(values, found{"ActiveJobs", int64(len(fields.List(state, "active")))})
	}
	return values
}
