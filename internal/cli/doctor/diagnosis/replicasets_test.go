// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
)

func TestReplicaSets(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	is := func(kind string, status metav1.ConditionStatus, reason string, age time.Duration) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: reason, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(now.Add(-age))}
	}
	verified := is(workv1alpha1.ConditionPlacementVerified, metav1.ConditionTrue, "AsExpected", time.Hour)
	rolling := func(age time.Duration) metav1.Condition {
		return is(workv1alpha1.ConditionPlacementRolledOut, metav1.ConditionFalse, "Progressing", age)
	}
	failing := is(workv1alpha1.ConditionManifestworkApplied, metav1.ConditionFalse, "NotAsExpected", time.Hour)
	busy := is(workv1alpha1.ConditionManifestworkApplied, metav1.ConditionFalse, "Processing", time.Hour)
	cases := map[string]struct {
		reason     string
		conditions []metav1.Condition
		age        time.Duration
		paused     bool
		want       string
	}{
		"complete": {reason: "nothing to say", age: time.Hour, conditions: []metav1.Condition{
			verified, is(workv1alpha1.ConditionPlacementRolledOut, metav1.ConditionTrue, "Complete", time.Hour), is(workv1alpha1.ConditionManifestworkApplied, metav1.ConditionTrue, "AsExpected", time.Hour),
		}},
		"works fail":           {reason: "the rollout does not go on", age: 2 * time.Hour, conditions: []metav1.Condition{verified, rolling(10 * time.Minute), failing}, want: "Broken:RolloutNotProgressing"},
		"works have just come": {reason: "agents take a moment", age: 2 * time.Hour, conditions: []metav1.Condition{verified, rolling(time.Second), failing}},
		"on its way":           {reason: "a rollout takes its time", age: 2 * time.Hour, conditions: []metav1.Condition{verified, rolling(10 * time.Minute), busy}},
		"on its way for long":  {reason: "somebody should look", age: 9 * time.Hour, conditions: []metav1.Condition{verified, rolling(2 * time.Hour), busy}, want: "Odd:RolloutSlow"},
		"paused":               {reason: "somebody wants it so", age: time.Hour, paused: true, conditions: []metav1.Condition{verified, rolling(time.Hour), failing}, want: "Odd:ReplicaSetPaused"},
		"no placement":         {reason: "it can never progress", age: time.Hour, conditions: []metav1.Condition{is(workv1alpha1.ConditionPlacementVerified, metav1.ConditionFalse, "PlacementDecisionNotFound", time.Hour)}, want: "Broken:PlacementDecisionNotFound"},
		"nothing chosen":       {reason: "the placement tells", age: time.Hour, conditions: []metav1.Condition{is(workv1alpha1.ConditionPlacementVerified, metav1.ConditionFalse, "PlacementDecisionEmpty", time.Hour)}, want: "Odd:PlacementDecisionEmpty"},
		"nobody has looked":    {reason: "the gate is off", age: time.Hour, want: "Broken:ReplicaSetNotSeen"},
		"new":                  {reason: "a moment is nothing", age: time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := workv1alpha1.ManifestWorkReplicaSet{ObjectMeta: metav1.ObjectMeta{Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-tc.age))}}
			set.Status.Conditions = tc.conditions
			if tc.paused {
				set.Annotations = map[string]string{fleetv1alpha1.AnnotationPaused: "true"}
			}
			var want []string
			if tc.want != "" {
				want = []string{"hub/replicasets=" + tc.want}
			}
			e := &evidence.Evidence{Hub: hub(now), ReplicaSets: evidence.Reading[*workv1alpha1.ManifestWorkReplicaSetList]{
				Found: true, Value: &workv1alpha1.ManifestWorkReplicaSetList{Items: []workv1alpha1.ManifestWorkReplicaSet{set}},
			}}
			if got := reasons(DiagnosePlacements(e)); !slices.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", tc.reason, got, want)
			}
		})
	}
}
