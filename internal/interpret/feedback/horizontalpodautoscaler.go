// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

func horizontalPodAutoscaler(object map[string]any) []found {
	return []found{
		{"CurrentReplicas", status(object, "currentReplicas")},
		{"DesiredReplicas", status(object, "desiredReplicas")},
	}
}
