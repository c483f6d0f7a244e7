// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/specs"
)

// TestFields makes sure that each field of a strategy does something: without it, something else
// is done.
func TestFields(t *testing.T) {
	groups := []ClusterGroup{{Clusters: []string{"a", "b"}}, {Name: "canary", Clusters: []string{"c"}}, {Clusters: []string{"d"}}}
	done, failed, slow := since(Succeeded, time.Minute), since(Failed, time.Minute), since(Progressing, time.Hour)
	soon := noon.Add(59 * time.Minute)
	for name, tc := range map[string]struct {
		field  string
		spec   string
		states map[string]ClusterState
		want   ApplyDecision
	}{
		"type": {
			field: "type", spec: `{type: Progressive, progressive: {maxConcurrency: 1}}`,
			want: ApplyDecision{Apply: []string{"a"}, Waiting: 3},
		},
		"success of all": {
			field: "all.minSuccessTime", spec: `{type: All, all: {minSuccessTime: 1h}}`,
			states: map[string]ClusterState{"a": done, "b": done, "c": done, "d": done},
			want:   ApplyDecision{After: soon, Proving: []ProvingCluster{{"a", soon}, {"b", soon}, {"c", soon}, {"d", soon}}},
		},
		"deadline of all": {
			field: "all.progressDeadline", spec: `{type: All, all: {progressDeadline: 1h}}`, states: map[string]ClusterState{"a": slow},
			want: ApplyDecision{Apply: []string{"b", "c", "d"}, Failed: []string{"a"}},
		},
		"concurrency": {
			field: "progressive.maxConcurrency", spec: `{type: Progressive, progressive: {maxConcurrency: 75%}}`,
			want: ApplyDecision{Apply: []string{"a", "b", "c"}, Waiting: 1},
		},
		"failures": {
			field: "progressive.maxFailures", spec: `{type: Progressive, progressive: {maxConcurrency: 1, maxFailures: 25%}}`, states: map[string]ClusterState{"a": failed},
			want: ApplyDecision{Apply: []string{"b"}, Failed: []string{"a"}, Waiting: 2},
		},
		"success": {
			field: "progressive.minSuccessTime", spec: `{type: Progressive, progressive: {maxConcurrency: 1, minSuccessTime: 1h}}`, states: map[string]ClusterState{"a": done},
			want: ApplyDecision{Waiting: 3, After: soon, Proving: []ProvingCluster{{"a", soon}}},
		},
		"deadline": {
			field: "progressive.progressDeadline", spec: `{type: Progressive, progressive: {maxConcurrency: 1, progressDeadline: 1h}}`, states: map[string]ClusterState{"a": slow},
			want: ApplyDecision{Failed: []string{"a"}, Waiting: 3, Stopped: "1 failed, and maxFailures allows 0"},
		},
		"mandatory by name": {
			field: "progressive.mandatoryDecisionGroups[0].groupName", spec: `{type: Progressive, progressive: {mandatoryDecisionGroups: [{groupName: canary}]}}`,
			want: ApplyDecision{Apply: []string{"c"}, Waiting: 3},
		},
		"mandatory by index": {
			field: "progressive.mandatoryDecisionGroups[0].groupIndex", spec: `{type: Progressive, progressive: {mandatoryDecisionGroups: [{groupIndex: 2}]}}`,
			want: ApplyDecision{Apply: []string{"d"}, Waiting: 3},
		},
		"failures by group": {
			field: "progressivePerGroup.maxFailures", spec: `{type: ProgressivePerGroup, progressivePerGroup: {maxFailures: 1}}`, states: map[string]ClusterState{"a": failed, "b": done},
			want: ApplyDecision{Apply: []string{"c"}, Failed: []string{"a"}, Waiting: 1},
		},
		"success by group": {
			field: "progressivePerGroup.minSuccessTime", spec: `{type: ProgressivePerGroup, progressivePerGroup: {minSuccessTime: 1h}}`, states: map[string]ClusterState{"a": done, "b": done},
			want: ApplyDecision{Waiting: 2, After: soon, Proving: []ProvingCluster{{"a", soon}, {"b", soon}}},
		},
		"deadline by group": {
			field: "progressivePerGroup.progressDeadline", spec: `{type: ProgressivePerGroup, progressivePerGroup: {progressDeadline: 1h}}`, states: map[string]ClusterState{"a": done, "b": slow},
			want: ApplyDecision{Failed: []string{"b"}, Waiting: 2, Stopped: "1 failed in group 0, and maxFailures allows 0"},
		},
		"mandatory by name, by group": {
			field: "progressivePerGroup.mandatoryDecisionGroups[0].groupName", spec: `{type: ProgressivePerGroup, progressivePerGroup: {mandatoryDecisionGroups: [{groupName: canary}]}}`,
			want: ApplyDecision{Apply: []string{"c"}, Waiting: 3},
		},
		"mandatory by index, by group": {
			field: "progressivePerGroup.mandatoryDecisionGroups[0].groupIndex", spec: `{type: ProgressivePerGroup, progressivePerGroup: {mandatoryDecisionGroups: [{groupIndex: 2}]}}`,
			want: ApplyDecision{Apply: []string{"d"}, Waiting: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			decide := func(spec clusterv1alpha1.RolloutStrategy) ApplyDecision {
				strategy, problems := ParseStrategy(spec, field.NewPath("rolloutStrategy"))
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				return DecideRollout(groups, tc.states, strategy, noon)
			}
			if diff := cmp.Diff(tc.want, decide(specs.ParseSpec[clusterv1alpha1.RolloutStrategy](t, tc.spec))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if cmp.Equal(tc.want, decide(specs.ParseWithout[clusterv1alpha1.RolloutStrategy](t, tc.spec, tc.field))) {
				t.Errorf("without %s the same is done", tc.field)
			}
		})
	}
}
