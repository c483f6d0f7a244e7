// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// exceptions lists rows, by kind and field or reason, whose tests need not notice the
// mutant, and why. One that is no longer needed fails the check.
func exceptions() map[string]string {
	const staysZero = "clients of OCM find it, and Capstan leaves it at 0: there is no code to take out"
	return map[string]string{
		"ManifestWorkReplicaSet status.placementSummary[].summary.desiredTotal": staysZero,
		"ManifestWorkReplicaSet status.placementSummary[].summary.updated":      staysZero,
		"ManifestWorkReplicaSet status.summary.desiredTotal":                    staysZero,
		"ManifestWorkReplicaSet status.summary.updated":                         staysZero,
		"Cluster status.remedyActions":                                          "Capstan leaves it empty: there is no code to take out",
	}
}
