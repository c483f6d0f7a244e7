// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"testing"
	"time"

	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

func TestTheFirstReasonToTryAgainCounts(t *testing.T) {
	cases := map[string]struct {
		reasons []time.Duration
		want    time.Duration
	}{
		"nothing to wait for is never":          {nil, 0},
		"one reason":                            {[]time.Duration{refusedRetry}, refusedRetry},
		"a later one does not put it off":       {[]time.Duration{goneCheck, refusedRetry}, goneCheck},
		"an earlier one brings it forward":      {[]time.Duration{refusedRetry, lookAgain, goneCheck}, goneCheck},
		"the order of the reasons is no matter": {[]time.Duration{lookAgain, goneCheck, refusedRetry}, goneCheck},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var result RemoveResult
			for _, after := range tc.reasons {
				result.retryAfter(after)
			}
			if result.Again != tc.want {
				t.Errorf("again after %s, want %s", result.Again, tc.want)
			}
		})
	}
}

func TestWhatStaysWithItsRecord(t *testing.T) {
	for end, want := range map[plan.Fate]bool{
		plan.FateKeep: false, plan.FateUnknown: false, // it may have to be kept
		plan.FateDelete: true, plan.FateOrphan: true, plan.FateMove: true,
	} {
		if got := isLeaving(end); got != want {
			t.Errorf("an object of fate %d leaves: got %t, want %t", end, got, want)
		}
	}
}

func TestRightsAreOfRBACAlone(t *testing.T) {
	const rbac = "rbac.authorization.k8s.io"
	cases := map[apply.ObjectRef]bool{
		{Group: rbac, Resource: "roles", Namespace: "shop", Name: "a"}:                     true,
		{Group: rbac, Resource: "clusterrolebindings", Name: "a"}:                          true,
		{Resource: "serviceaccounts", Namespace: "shop", Name: "a"}:                        false,
		{Group: "rbac.example.com", Resource: "roles", Namespace: "shop", Name: "a"}:       false,
		{Group: "authorization.k8s.io", Resource: "subjectaccessreviews", Name: rbac}:      false,
		{Resource: "configmaps", Namespace: rbac, Name: "roles.rbac.authorization.k8s.io"}: false,
	}
	for object, want := range cases {
		if got := isRight(object); got != want {
			t.Errorf("%s gives rights: got %t, want %t", object, got, want)
		}
	}
}
