// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package sum

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAnObjectThatFinalizersKeepIsToldOf(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason     string
		finalizers []string
		age        time.Duration // since the deletion; negative is none
		says       []string
		again      time.Duration
	}{
		"one that is not deleted": {reason: "finalizers do nothing yet", finalizers: []string{"example.com/f"}, age: -1},
		"one that is about to go": {reason: "nothing keeps it", age: time.Hour},
		"one that was just deleted": {
			reason: "most finalizers are removed soon", finalizers: []string{"example.com/f"}, age: 10 * time.Second, again: 20 * time.Second,
		},
		"one that stays": {
			reason: "its clusters have it for longer than its user may think", finalizers: []string{"example.com/f", "foregroundDeletion"}, age: KeptAfter,
			says: []string{"since 2026-03-01T11:59:30Z", "finalizers: example.com/f, foregroundDeletion."},
		},
		"one with many": {
			reason: "anybody may write them", finalizers: []string{"a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7"}, age: time.Hour,
			says: []string{"a/1, a/2, a/3, a/4, a/5 and 2 more."},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := &metav1.ObjectMeta{Finalizers: tc.finalizers}
			if tc.age >= 0 {
				object.DeletionTimestamp = &metav1.Time{Time: now.Add(-tc.age)}
			}
			remark, again := LeavingRemark(object, now)
			if again != tc.again || (remark == "") != (len(tc.says) == 0) {
				t.Errorf("%s: it says %q, and again in %s", tc.reason, remark, again)
			}
			for _, part := range tc.says {
				if !strings.Contains(remark, part) {
					t.Errorf("%s: %q does not say %q", tc.reason, remark, part)
				}
			}
		})
	}
}
