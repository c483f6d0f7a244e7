// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import "time"

const (
	// Day is in what the lives of certificates are counted.
	Day = 24 * time.Hour
	// Enough is how many requests have to get through after each step.
	Enough = 40
	// patience only decides how long a failure takes.
	patience = time.Minute
)
