// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

// pod reports PodReady as the text of the condition's status, not as a
// boolean: that is what readers of this value expect.
func pod(object map[string]any) []found {
	return []found{
		{"PodReady", conditionStatus(object, "Ready")},
		{"PodPhase", status(object, "phase")},
	}
}
