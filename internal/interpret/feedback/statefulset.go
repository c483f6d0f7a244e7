// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

func statefulSet(object map[string]any) []found {
	return []found{
		{"ReadyReplicas", status(object, "readyReplicas")},
		{"Replicas", status(object, "replicas")},
		{"AvailableReplicas", status(object, "availableReplicas")},
		{"UpdatedReplicas", status(object, "updatedReplicas")},
	}
}
