// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/testing/build"
)

// sum is a template, what clusters report, and the status that the template
// gets by it; none if that is empty.
type sum struct {
	template string
	// reports are of the clusters a, b and c.
	reports []report
	want    string
}

// report is a status, empty if there is none.
type report struct {
	status string
	health string
}

func statusOf(t testing.TB, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	status, _ := build.ParseObject(t, "{kind: x, status: "+text+"}").Object["status"].(map[string]any)
	return status
}

func itemsOf(t testing.TB, reports []report) []interpret.ClusterItem {
	t.Helper()
	items := make([]interpret.ClusterItem, 0, len(reports))
	for i, r := range reports {
		items = append(items, interpret.ClusterItem{Cluster: string(rune('a' + i)), Status: statusOf(t, r.status), Applied: true, Health: r.health})
	}
	return items
}

// aggregated sums up, which cannot fail of the kinds of Kubernetes.
func aggregated(t *testing.T, template *unstructured.Unstructured, items []interpret.ClusterItem) (map[string]any, bool) {
	t.Helper()
	status, changed, err := chain().AggregateStatus(template, items)
	if err != nil {
		t.Error(err)
	}
	return status, changed
}

func checkSums(t *testing.T, head string, sums map[string]sum) {
	t.Helper()
	for name, s := range sums {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			template, items := build.ParseObject(t, "{"+head+", "+s.template+"}"), itemsOf(t, s.reports)
			got, changed := aggregated(t, template, items)
			if diff := cmp.Diff(statusOf(t, s.want), got); diff != "" || changed != (s.want != "") {
				t.Errorf("changed: %t, %s", changed, diff)
			}
			if diff := cmp.Diff(itemsOf(t, s.reports), items); diff != "" {
				t.Errorf("what was reported has been changed: %s", diff)
			}
			slices.Reverse(items)
			if again, _ := aggregated(t, template, items); !cmp.Equal(got, again) {
				t.Errorf("in another order: %s", cmp.Diff(got, again))
			}
			if !changed {
				return
			}
			template.Object["status"] = got
			if again, changed := aggregated(t, template, items); changed {
				t.Errorf("the same reports change the status again: %s", cmp.Diff(got, again))
			}
		})
	}
}

// bothSay is a condition of which the clusters a and b say the same.
func bothSay(condition, text string) string {
	return strings.Replace(condition, "message: "+text, `message: "a=`+text+`, b=`+text+`"`, 1)
}

func TestAggregatedDeployment(t *testing.T) {
	t.Parallel()
	const (
		at3  = `generation: 7, observedGeneration: 7, resourceTemplateGeneration: 3, `
		full = at3 + `replicas: 2, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2`
		up   = `{type: Available, status: "True", reason: MinimumReplicasAvailable, message: ok, lastTransitionTime: "2026-01-01T00:00:01Z"}`
		done = `{type: Progressing, status: "True", reason: NewReplicaSetAvailable, message: done, lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: "2026-01-01T00:00:02Z"}`
	)
	checkSums(t, "apiVersion: apps/v1, kind: Deployment, spec: {replicas: 4}", map[string]sum{
		"full": {
			`metadata: {generation: 3}`,
			[]report{
				{`{` + full + `, conditions: [` + up + `, ` + done + `]}`, "Healthy"}, {`{` + full + `, collisionCount: 1, conditions: [` + up + `, ` + done + `]}`, "Healthy"},
			},
			`{observedGeneration: 3, replicas: 4, readyReplicas: 4, updatedReplicas: 4, availableReplicas: 4, conditions: [` + bothSay(up, "ok") + `, ` + bothSay(done, "done") + `]}`,
		},
		"the agents have not seen it": {`metadata: {generation: 1}`, []report{{}, {}}, ``},
		"one cluster has an old template": {
			`metadata: {generation: 3}, status: {observedGeneration: 2}`,
			[]report{{`{` + full + `}`, "Healthy"}, {`{generation: 6, observedGeneration: 6, resourceTemplateGeneration: 2, replicas: 2}`, "Healthy"}},
			`{observedGeneration: 2, replicas: 4, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2}`,
		},
		"one controller has not seen it": {
			`metadata: {generation: 3}`,
			[]report{{`{` + full + `}`, "Healthy"}, {`{generation: 7, observedGeneration: 6, resourceTemplateGeneration: 3}`, "Healthy"}},
			`{observedGeneration: 0, replicas: 2, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2}`,
		},
		"a cluster is new": {
			`metadata: {generation: 3}, status: {observedGeneration: 3, conditions: [` + up + `]}`,
			[]report{{`{` + full + `, conditions: [` + up + `]}`, "Healthy"}, {}},
			`{observedGeneration: 2, replicas: 2, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2, conditions: [
			{type: Available, status: Unknown, reason: NotReported, message: "a=ok; b: has not reported yet", lastTransitionTime: "2026-01-01T00:00:01Z"}]}`,
		},
		"one misses its deadline": {
			`metadata: {generation: 3}`,
			[]report{
				{`{` + full + `, conditions: [` + up + `, ` + done + `]}`, "Healthy"},
				{`{` + at3 + `replicas: 2, unavailableReplicas: 2, conditions: [{type: Available, status: "False", reason: MinimumReplicasUnavailable, lastTransitionTime: "2026-01-01T00:00:05Z"},
				{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: timed out, lastTransitionTime: "2026-01-01T00:00:06Z"}]}`, "Unhealthy"},
			},
			`{observedGeneration: 3, replicas: 4, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2, unavailableReplicas: 2, conditions: [
			{type: Available, status: "False", reason: MinimumReplicasUnavailable, message: "b=MinimumReplicasUnavailable", lastTransitionTime: "2026-01-01T00:00:05Z"},
			{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: "b=timed out", lastTransitionTime: "2026-01-01T00:00:06Z", lastUpdateTime: "2026-01-01T00:00:02Z"}]}`,
		},
		"one still rolls out": {
			`metadata: {generation: 3}`,
			[]report{
				{`{` + at3 + `conditions: [` + done + `]}`, "Healthy"},
				{`{` + at3 + `conditions: [{type: Progressing, status: "True", reason: ReplicaSetUpdated, message: half, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`, "Unhealthy"},
			},
			`{observedGeneration: 3, conditions: [{type: Progressing, status: "True", reason: ReplicaSetUpdated, message: "a=done, b=half", lastTransitionTime: "2026-01-01T00:00:00Z", lastUpdateTime: "2026-01-01T00:00:02Z"}]}`,
		},
		"one is silent": {
			`metadata: {generation: 3}, status: {conditions: [{type: Available, status: Unknown, lastTransitionTime: "2026-01-02T00:00:00Z"}]}`,
			[]report{{`{` + at3 + `conditions: [` + up + `]}`, "Healthy"}, {`{` + at3 + `conditions: [` + up + `]}`, "Unknown"}},
			`{observedGeneration: 3, conditions: [{type: Available, status: Unknown, reason: ClusterSilent, message: "a=ok; b: does not respond; when it did, the condition was True", lastTransitionTime: "2026-01-02T00:00:00Z"}]}`,
		},
		"no quota in two": {
			`metadata: {generation: 3}`,
			[]report{
				{`{` + at3 + `conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: exceeded quota}]}`, "Unhealthy"},
				{`{` + full + `}`, "Healthy"},
				{`{` + at3 + `conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: exceeded quota}]}`, "Unhealthy"},
			},
			`{observedGeneration: 3, replicas: 2, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2,
			conditions: [{type: ReplicaFailure, status: "True", reason: FailedCreate, message: "a=exceeded quota, c=exceeded quota"}]}`,
		},
		"no cluster at all": {
			`metadata: {generation: 3}, status: {observedGeneration: 3, replicas: 4, conditions: [` + up + `, {type: ReplicaFailure, status: "True"}]}`, nil,
			`{observedGeneration: 3, conditions: [{type: Available, status: Unknown, reason: NotReported, message: No cluster has the object., lastTransitionTime: "2026-01-01T00:00:01Z"}]}`,
		},
		"it is as it was": {
			`metadata: {generation: 3}, status: {observedGeneration: 3, replicas: 2, readyReplicas: 2, updatedReplicas: 2, availableReplicas: 2, unavailableReplicas: 0}`,
			[]report{{`{` + full + `}`, "Healthy"}},
			``,
		},
		"odd": {
			`metadata: text`,
			[]report{{`{replicas: "2", readyReplicas: [1], availableReplicas: 1.5, updatedReplicas: 2, observedGeneration: x, conditions: [1, {type: 2}, {type: A, status: 5}]}`, ""}, {`{conditions: text}`, ""}},
			`{updatedReplicas: 2}`,
		},
	})
}
