// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback

// job reports JobComplete as the text of the condition's status, not as a
// boolean: that is what readers of this value expect.
func job(object map[string]any) []found {
	return []found{
		{"JobComplete", conditionStatus(object, "Complete")},
		{"JobSucceeded", status(object, "succeeded")},
	}
}
