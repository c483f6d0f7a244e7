// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
)

func TestPlacements(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	satisfied := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: clusterv1beta1.PlacementConditionSatisfied, Status: status, Reason: reason, Message: reason, ObservedGeneration: 1}
	}
	wrong := metav1.Condition{Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionTrue, Reason: "Misconfigured", ObservedGeneration: 1}
	cases := map[string]struct {
		reason     string
		conditions []metav1.Condition
		chosen     int32
		age        time.Duration
		touched    time.Duration
		disabled   bool
		want       string
	}{
		"satisfied":            {reason: "nothing to say", conditions: []metav1.Condition{satisfied(metav1.ConditionTrue, "AllDecisionsScheduled")}, chosen: 2},
		"nothing chosen":       {reason: "somebody waits", conditions: []metav1.Condition{satisfied(metav1.ConditionFalse, "NoManagedClusterMatched")}, want: "Broken:NoManagedClusterMatched"},
		"fewer than wanted":    {reason: "others do the work", conditions: []metav1.Condition{satisfied(metav1.ConditionFalse, "NotAllDecisionsScheduled")}, chosen: 1, want: "Odd:NotAllDecisionsScheduled"},
		"empty sets":           {reason: "a hub that is new has no clusters", conditions: []metav1.Condition{satisfied(metav1.ConditionFalse, "AllManagedClusterSetsEmpty")}, want: "Odd:AllManagedClusterSetsEmpty"},
		"wrong":                {reason: "no change of it counts", conditions: []metav1.Condition{wrong}, chosen: 2, want: "Broken:Misconfigured"},
		"nobody has looked":    {reason: "the controller does not run", age: time.Hour, want: "Broken:PlacementNotSeen"},
		"new":                  {reason: "a moment is nothing", age: time.Second},
		"changed a moment ago": {reason: "nor is it after a change", age: time.Hour, touched: time.Second},
		"switched off":         {reason: "somebody wants it so", age: time.Hour, disabled: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-tc.age))}}
			p.Status.Conditions, p.Status.NumberOfSelectedClusters = tc.conditions, tc.chosen
			if tc.disabled {
				p.Annotations = map[string]string{clusterv1beta1.AnnotationSchedulingDisable: "true"}
			}
			if tc.touched > 0 {
				p.ManagedFields = []metav1.ManagedFieldsEntry{{Time: new(metav1.NewTime(now.Add(-tc.touched)))}}
			}
			var want []string
			if tc.want != "" {
				want = []string{"hub/placements=" + tc.want}
			}
			e := &evidence.Evidence{Hub: hub(now), Placements: evidence.Reading[*clusterv1beta1.PlacementList]{
				Found: true, Value: &clusterv1beta1.PlacementList{Items: []clusterv1beta1.Placement{p}},
			}}
			if got := reasons(DiagnosePlacements(e)); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", tc.reason, got, want)
			}
		})
	}
}

func TestPlacementsThatAreManyOrHidden(t *testing.T) {
	list := &clusterv1beta1.PlacementList{}
	for i := range toldOneByOne + 2 {
		list.Items = append(list.Items, clusterv1beta1.Placement{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}})
	}
	e := &evidence.Evidence{Hub: hub(time.Now()), Placements: evidence.Reading[*clusterv1beta1.PlacementList]{Found: true, Value: list}}
	steps := DiagnosePlacements(e)
	if n := len(steps[0].Findings); n != toldOneByOne+1 || steps[0].Findings[toldOneByOne].Object != "2 more Placements" {
		t.Errorf("there are %d findings: %+v", n, steps[0].Findings)
	}
	e.Placements = evidence.Reading[*clusterv1beta1.PlacementList]{Err: errors.New("forbidden")}
	if got := reasons(DiagnosePlacements(e)); !slices.Equal(got, []string{"hub/placements=Unseen:CannotBeRead"}) {
		t.Errorf("without the right to read them: %v", got)
	}
	if got := DiagnosePlacements(&evidence.Evidence{Hub: hub(time.Now())}); got != nil {
		t.Errorf("a hub without the kind: %v", got)
	}
}
