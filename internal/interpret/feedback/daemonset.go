// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

func daemonSet(object map[string]any) []found {
	return []found{
		{"NumberReady", status(object, "numberReady")},
		{"DesiredNumberScheduled", status(object, "desiredNumberScheduled")},
		{"NumberAvailable", status(object, "numberAvailable")},
	}
}
