// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/scheduling/rollout"
)

func at(second int) metav1.Time { return metav1.Unix(1_700_000_000+int64(second), 0) }

// cached returns a work of generation 2 as the cache has it, whose spec was
// written at 100.
func cached(conditions ...metav1.Condition) *workv1.ManifestWork {
	written := at(100)
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "c1", Name: "web-00000", UID: "u", Generation: 2, CreationTimestamp: at(0),
		Labels:        map[string]string{workv1.LabelManifestWorkReplicaSet: "apps.web", workv1.LabelPlacementName: "p"},
		Annotations:   map[string]string{keptHash: "new"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Time: &written}},
	}}
	work.Status.Conditions = conditions
	return work
}

func condition(name string, status metav1.ConditionStatus, second int) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, ObservedGeneration: 2, LastTransitionTime: at(second), Reason: "Because", Message: "as it is"}
}

func TestStates(t *testing.T) {
	yes, no, unknown := metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	applied, available := condition("Applied", yes, 110), condition("Available", yes, 120)
	of := func(status rollout.ClusterStatus, second int) templateState {
		return templateState{ClusterState: rollout.ClusterState{Status: status, Since: at(second).Time}}
	}
	ruled := func(s templateState) templateState { s.ByProgressing = true; return s }
	because := func(s templateState, why string) templateState { s.Why = why; return s }
	stale := condition("Progressing", yes, 50)
	stale.ObservedGeneration = 1
	leaving := cached(applied, available)
	leaving.DeletionTimestamp = ptr.To(at(130))
	other := cached(applied, available)
	other.Annotations[keptHash] = "old"
	for name, test := range map[string]struct {
		work *workv1.ManifestWork
		want templateState
	}{
		"no work":                 {nil, templateState{ClusterState: rollout.ClusterState{Status: rollout.ToApply}}},
		"another template":        {other, templateState{ClusterState: rollout.ClusterState{Status: rollout.ToApply}}},
		"being deleted":           {leaving, of(rollout.Progressing, 130)},
		"not reported":            {cached(), of(rollout.Progressing, 100)},
		"not applied":             {cached(condition("Applied", no, 110), available), because(of(rollout.Failed, 110), "Applied is False: as it is")},
		"applied is unknown":      {cached(condition("Applied", unknown, 110)), of(rollout.Progressing, 100)},
		"applied":                 {cached(applied), of(rollout.Progressing, 100)},
		"applied, not available":  {cached(applied, condition("Available", no, 120)), of(rollout.Progressing, 100)},
		"available":               {cached(applied, available), of(rollout.Succeeded, 120)},
		"available in the future": {cached(applied, condition("Available", yes, 2000)), of(rollout.Succeeded, 110)},
		"available since before the change": {
			cached(condition("Applied", yes, 10), condition("Available", yes, 20)), of(rollout.Succeeded, 100),
		},
		"degraded, and no rule for progressing": {
			cached(applied, available, condition("Degraded", yes, 125)), because(of(rollout.Failed, 125), "Degraded is True: as it is"),
		},
		"progressing":           {cached(applied, available, condition("Progressing", yes, 115)), ruled(of(rollout.Progressing, 115))},
		"progressing for long":  {cached(applied, available, condition("Progressing", yes, 15)), ruled(of(rollout.Progressing, 100))},
		"progressing, degraded": {cached(applied, available, condition("Progressing", yes, 115), condition("Degraded", yes, 125)), ruled(because(of(rollout.Failed, 125), "Degraded is True: as it is"))},
		"done, if not well":     {cached(applied, available, condition("Progressing", no, 115), condition("Degraded", yes, 125)), ruled(of(rollout.Succeeded, 115))},
		"done":                  {cached(applied, condition("Progressing", no, 115)), ruled(of(rollout.Succeeded, 115))},
		"progress is unknown":   {cached(applied, available, condition("Progressing", unknown, 115)), ruled(of(rollout.Progressing, 115))},
		"progress of another generation does not count": {cached(applied, available, stale), of(rollout.Succeeded, 120)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, stateOfWork(test.work, "new", at(1000).Time)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheCacheKeepsAHashAndNoManifests(t *testing.T) {
	spec := workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"large":"manifest"}`)}}}}}
	fields := func(second int, subresource, content string) metav1.ManagedFieldsEntry {
		entry := metav1.ManagedFieldsEntry{Time: ptr.To(at(second)), Subresource: subresource, FieldsV1: &metav1.FieldsV1{}}
		entry.FieldsV1.SetRawBytes([]byte(content))
		return entry
	}
	full := cached(condition("Applied", metav1.ConditionTrue, 110), condition("Other", metav1.ConditionTrue, 110))
	full.Spec = spec
	full.Annotations = map[string]string{"large": "annotation", workv1.AnnotationReportHealth: "true"}
	full.Labels["other"] = "label"
	full.ManagedFields = []metav1.ManagedFieldsEntry{
		fields(100, "", `{"f:spec":{}}`), fields(200, "", `{"f:metadata":{"f:finalizers":{}}}`), fields(300, "status", `{"f:status":{"f:spec":{}}}`),
	}
	want := cached(condition("Applied", metav1.ConditionTrue, 110))
	want.Annotations = map[string]string{keptHash: workSpecHash(&spec), allowance.AnnotationBytes: fmt.Sprint(allowance.WorkBytes(full)), workv1.AnnotationReportHealth: "true", fleetv1alpha1.AnnotationTraceparent: ""}
	got, ours := SlimWork(full)
	if diff := cmp.Diff(want, got); !ours || diff != "" {
		t.Errorf("ours %t (-want +got):\n%s", ours, diff)
	}
	again, ours := SlimWork(got.DeepCopy())
	if diff := cmp.Diff(want, again); !ours || diff != "" {
		t.Errorf("trimmed once more, ours %t (-want +got):\n%s", ours, diff)
	}
	forged := full.DeepCopy()
	forged.Annotations[keptHash] = "of an agent"
	if got, _ := SlimWork(forged); got.Annotations[keptHash] != workSpecHash(&spec) || len(got.Spec.Workload.Manifests) > 0 {
		t.Errorf("an agent may say what the hash of its work is: %v", got.Annotations)
	}
	forged.Spec.Workload.Manifests = nil
	if got, _ := SlimWork(forged); got.Annotations[keptHash] != workSpecHash(&forged.Spec) || got.Annotations["large"] != "" {
		t.Errorf("an agent may say what the hash of its work without manifests is, and %v", got.Annotations)
	}
	forged.Annotations[workv1.AnnotationReportHealth] = strings.Repeat("x", 100_000)
	forged.Annotations[fleetv1alpha1.AnnotationTraceparent] = strings.Repeat("x", 100_000)
	if got, _ := SlimWork(forged); len(fmt.Sprint(got.Annotations)) > 1000 {
		t.Errorf("%d bytes of an agent's annotations are kept", len(fmt.Sprint(got.Annotations)))
	}
	if _, ours := SlimWork(&workv1.ManifestWork{}); ours {
		t.Error("a work without the label is taken for ours")
	}
	if a, b := workSpecHash(&spec), workSpecHash(&workv1.ManifestWorkSpec{}); a == b || a == "" {
		t.Errorf("the hashes of different specs are %q and %q", a, b)
	}
}
