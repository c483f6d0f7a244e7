// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/kube/written"
)

func TestOwnWritesAreExpected(t *testing.T) {
	meta := func(uid, version string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "apps", Name: "web", UID: types.UID(uid), ResourceVersion: version}
	}
	one := func(version string) []clusterv1beta1.PlacementDecision {
		return []clusterv1beta1.PlacementDecision{{ObjectMeta: meta("one", version)}}
	}
	leaving := one("10")
	leaving[0].DeletionTimestamp = new(metav1.Unix(1, 0))
	cases := map[string]struct {
		reason    string
		wrote     string // the version of the decision, "" for none
		deleted   bool
		reported  string // the version of the Placement
		placement string // as it is read
		shown     []clusterv1beta1.PlacementDecision
		later     time.Duration
		want      bool
	}{
		"nothing was written":      {placement: "5", shown: one("3"), want: true},
		"it is not there yet":      {wrote: "9", placement: "5"},
		"an earlier version":       {reason: "versions are numbers", wrote: "10", placement: "5", shown: one("9")},
		"that version":             {wrote: "10", placement: "5", shown: one("10"), want: true},
		"a later version":          {reason: "somebody else wrote after us", wrote: "10", placement: "5", shown: one("11"), want: true},
		"it is deleted, and there": {deleted: true, placement: "5", shown: one("10")},
		"it is deleted":            {deleted: true, placement: "5", want: true},
		"a finalizer keeps it":     {reason: "its owner decides when it goes", deleted: true, placement: "5", shown: leaving, want: true},
		"the status is not there":  {reported: "7", placement: "5"},
		"the status is there":      {reported: "7", placement: "7", want: true},
		"it never comes":           {reason: "somebody else has deleted it", wrote: "9", placement: "5", later: written.BehindMax, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			e := newExpectations(clock)
			p := &clusterv1beta1.Placement{ObjectMeta: meta("placement", tc.placement)}
			if tc.wrote != "" {
				e.expectWritten(p, &clusterv1beta1.PlacementDecision{ObjectMeta: meta("one", tc.wrote)})
			}
			if tc.deleted {
				e.expectDeleted(p, &clusterv1beta1.PlacementDecision{ObjectMeta: meta("one", "4")})
			}
			if tc.reported != "" {
				e.expectWritten(p, &clusterv1beta1.Placement{ObjectMeta: meta("placement", tc.reported)})
			}
			clock.SetTime(clock.Now().Add(tc.later))
			if got := e.areSatisfiedBy(p, tc.shown); got != tc.want {
				t.Errorf("%s: got %t, want %t", tc.reason, got, tc.want)
			}
		})
	}
}

func TestANewPlacementDoesNotWaitForItsPredecessor(t *testing.T) {
	e := newExpectations(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	p := func(uid types.UID) *clusterv1beta1.Placement {
		return &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", UID: uid, ResourceVersion: "5"}}
	}
	d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{UID: "one", ResourceVersion: "10"}}
	e.expectWritten(p("old"), d)
	if e.areSatisfiedBy(p("old"), nil) {
		t.Fatal("the old one does not wait for its write")
	}
	if !e.areSatisfiedBy(p("new"), nil) {
		t.Error("the new one waits for a write of the old one")
	}
	e.expectWritten(p("old"), d)
	e.expectWritten(p("new"), p("new"))
	if !e.areSatisfiedBy(p("new"), nil) {
		t.Error("the new one has written something, and waits for a write of the old one")
	}
}

func TestWhatIsSeenIsNotExpectedAnyMore(t *testing.T) {
	p := &clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "web", UID: "placement", ResourceVersion: "5"}}
	d := func(version string) *clusterv1beta1.PlacementDecision {
		return &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{UID: "one", ResourceVersion: version}}
	}
	cases := map[string]struct {
		deleted bool   // by us, or else written as version 10
		seen    string // the version of the event
		gone    bool
		want    bool
	}{
		"an earlier version":                  {seen: "9"},
		"that version":                        {seen: "10", want: true},
		"somebody has deleted it since":       {seen: "11", gone: true, want: true},
		"it was deleted, and an earlier word": {deleted: true, seen: "10"},
		"it was deleted":                      {deleted: true, seen: "10", gone: true, want: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			e := newExpectations(clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
			if tc.deleted {
				e.expectDeleted(p, d("9"))
			} else {
				e.expectWritten(p, d("10"))
			}
			e.observeDecision(types.NamespacedName{Namespace: "apps", Name: "web"}, d(tc.seen), tc.gone)
			shown := []clusterv1beta1.PlacementDecision{*d("9")}
			if !tc.deleted {
				shown = nil
			}
			if got := e.areSatisfiedBy(p, shown); got != tc.want {
				t.Errorf("met: got %t, want %t", got, tc.want)
			}
		})
	}
}
