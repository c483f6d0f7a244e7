// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package staging

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

// TestHowAClusterIs has works of generation 2, and what their agents have said of
// which generation.
func TestHowAClusterIs(t *testing.T) {
	for name, test := range map[string]struct {
		applied    metav1.ConditionStatus
		of         int64
		health     string
		read       int64
		want       rollout.ClusterStatus
		unanswered bool
	}{
		"nothing is said":                     {want: rollout.Progressing},
		"it is well":                          {applied: "True", of: 2, health: "Healthy", read: 2, want: rollout.Succeeded},
		"it is not":                           {applied: "True", of: 2, health: "Unhealthy", read: 2, want: rollout.Progressing},
		"it is refused":                       {applied: "False", of: 2, health: "Healthy", read: 2, want: rollout.Failed},
		"it was well, before it was scaled":   {applied: "True", of: 1, health: "Healthy", read: 1, want: rollout.Progressing, unanswered: true},
		"it is applied, and was well":         {applied: "True", of: 2, health: "Healthy", read: 1, want: rollout.Progressing, unanswered: true},
		"it was not well":                     {applied: "True", of: 1, health: "Unhealthy", read: 1, want: rollout.Progressing},
		"it is applied, and was not well":     {applied: "True", of: 2, health: "Unhealthy", read: 1, want: rollout.Progressing},
		"it was refused":                      {applied: "False", of: 1, health: "Healthy", read: 1, want: rollout.Progressing},
		"nothing is known of it, and was not": {applied: "Unknown", of: 1, health: "Healthy", read: 1, want: rollout.Progressing},
	} {
		work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Generation: 2}}
		if test.applied != "" {
			work.Status.Conditions = []metav1.Condition{{Type: workv1.ManifestWorkConditionApplied, Status: test.applied, ObservedGeneration: test.of}}
			work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
				Conditions: []metav1.Condition{{Type: workv1.ManifestConditionStatusFeedbackSynced, Status: metav1.ConditionTrue, ObservedGeneration: test.read}},
				StatusFeedback: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{{
					Name: karmadaworkv1alpha1.FeedbackHealth, FieldValue: workv1.FieldValue{String: &test.health},
				}}},
			}}
		}
		got := workState(work, noon)
		if got.Status != test.want || got.Unanswered != test.unanswered || !got.Updated {
			t.Errorf("%s: it is %+v, want %v (unanswered: %t)", name, got, test.want, test.unanswered)
		}
	}
}
