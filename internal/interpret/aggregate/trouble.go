// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package aggregate

import (
	"slices"
	"strings"
)

// isTroubleCondition reports whether a condition of this type is one that should not be
// True. Its name has to tell it: no field of a condition does.
func isTroubleCondition(name string) bool {
	return slices.Contains([]string{
		"Stalled", "Reconciling", "Degraded", "Failing", "Unhealthy", "Paused", "Suspended", "Terminating", "Deleting",
		"FailureTarget", "DisruptionTarget", "ScalingLimited", "Resizing", "ModifyingVolume", "NetworkUnavailable", "Conflicted",
	}, name) || slices.ContainsFunc([]string{"Failure", "Failed", "Error", "Errors", "Pressure", "Pending", "InProgress", "Problem"},
		func(suffix string) bool { return strings.HasSuffix(name, suffix) })
}
