// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
	"github.com/capstan-io/capstan/internal/testing/build"
)

func TestWellKnownConditions(t *testing.T) {
	t.Parallel()
	const evaluated = workv1.ManifestReasonConditionRuleEvaluated
	cases := map[string]struct {
		reason    string
		condition string
		object    string
		want      []outcome
	}{
		"a job that is complete": {
			reason: "the job ended", condition: "Complete",
			object: `{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Complete, status: "True"}]}}`,
			want:   []outcome{{"Complete", "True", evaluated, "The job is finished: it is complete."}},
		},
		"a job that failed": {
			reason: "it ended, too", condition: "Complete",
			object: `{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Failed, status: "True"}]}}`,
			want:   []outcome{{"Complete", "True", evaluated, "The job is finished: it failed."}},
		},
		"a job that runs": {
			reason: "it did not end", condition: "Complete",
			object: `{apiVersion: batch/v1, kind: Job, status: {conditions: [{type: Complete, status: "False"}, {type: Other, status: "True"}]}}`,
			want:   []outcome{{"Complete", "False", evaluated, "The job is not finished."}},
		},
		"a rule without a condition": {
			reason: "it is Complete", condition: "",
			object: `{apiVersion: batch/v1, kind: Job}`,
			want:   []outcome{{"Complete", "False", evaluated, "The job is not finished."}},
		},
		"a pod that succeeded": {
			reason: "it ended", condition: "Complete", object: `{apiVersion: v1, kind: Pod, status: {phase: Succeeded}}`,
			want: []outcome{{"Complete", "True", evaluated, "The pod is in phase Succeeded."}},
		},
		"a pod that failed": {
			reason: "it ended", condition: "Complete", object: `{apiVersion: v1, kind: Pod, status: {phase: Failed}}`,
			want: []outcome{{"Complete", "True", evaluated, "The pod is in phase Failed."}},
		},
		"a pod that runs": {
			reason: "it did not end", condition: "Complete", object: `{apiVersion: v1, kind: Pod, status: {phase: Running}}`,
			want: []outcome{{"Complete", "False", evaluated, "The pod is in phase Running."}},
		},
		"a pod without status": {
			reason: "it did not end", condition: "Complete", object: `{apiVersion: v1, kind: Pod}`,
			want: []outcome{{"Complete", "False", evaluated, "The pod has no phase yet."}},
		},
		"Complete of a ConfigMap": {
			reason:    "it never ends, and a rule for all objects must not make the work incomplete for it",
			condition: "Complete", object: `{apiVersion: v1, kind: ConfigMap}`,
		},
		"a condition that nobody knows": {
			reason: "there is nothing to say", condition: "NotWellKnown", object: `{apiVersion: batch/v1, kind: Job}`,
		},
		"Progressing of a healthy object": {
			reason: "it has arrived", condition: "Progressing", object: `{apiVersion: v1, kind: ConfigMap}`,
			want: []outcome{{"Progressing", "False", evaluated, "The object exists and reports no problem."}},
		},
		"Progressing of a degraded object": {
			reason:    "rollouts take Progressing and Degraded together for a failure",
			condition: "Progressing", object: `{apiVersion: v1, kind: Pod, status: {phase: Failed}}`,
			want: []outcome{{"Progressing", "True", evaluated, "The pod failed."}},
		},
		"Degraded of a degraded object": {
			reason: "that is what it is for", condition: "Degraded", object: `{apiVersion: v1, kind: Pod, status: {phase: Failed}}`,
			want: []outcome{{"Degraded", "True", evaluated, "The pod failed."}},
		},
		"Degraded of an object on its way": {
			reason: "nothing is wrong yet", condition: "Degraded", object: `{apiVersion: v1, kind: Pod, status: {phase: Pending}}`,
			want: []outcome{{"Degraded", "False", evaluated, "The pod's containers are being started."}},
		},
		"Degraded of a pod whose node does not answer": {
			reason: "nobody knows", condition: "Degraded", object: `{apiVersion: v1, kind: Pod, status: {phase: Unknown}}`,
			want: []outcome{{"Degraded", "Unknown", evaluated, "The state of the pod is unknown."}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := evaluate(t.Context(), rules.CompileConditionRules([]workv1.ConditionRule{wellKnown(c.condition)}), build.ParseObject(t, c.object))
			if diff := cmp.Diff(c.want, outcomes(got)); diff != "" {
				t.Errorf("%s: %s", c.reason, diff)
			}
		})
	}
}
