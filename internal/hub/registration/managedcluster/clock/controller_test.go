// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClocksThatDifferTooMuchAreOutOfSync(t *testing.T) {
	hub := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	const limit = 5 * time.Minute
	cases := map[string]struct {
		reason string
		agent  time.Duration
		want   metav1.ConditionStatus
	}{
		"the same time":             {reason: "no difference", want: metav1.ConditionTrue},
		"an agent that is behind":   {reason: "below the limit", agent: -limit + time.Second, want: metav1.ConditionTrue},
		"an agent far behind":       {reason: "the limit itself counts", agent: -limit, want: metav1.ConditionFalse},
		"an agent from the future":  {reason: "both directions count", agent: limit, want: metav1.ConditionFalse},
		"an agent a little too new": {reason: "below the limit", agent: limit - time.Second, want: metav1.ConditionTrue},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := compare(hub, hub.Add(c.agent), limit); got.Status != c.want {
				t.Errorf("%s: got %s, want %s", c.reason, got.Status, c.want)
			}
		})
	}
}
