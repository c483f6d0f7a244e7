// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ttl

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

func at(second int) metav1.Time { return metav1.Unix(1_700_000_000+int64(second), 0) }

// finished returns a work that was made at 0, finished at 100, and has 50
// seconds to live.
func finished(changes ...func(*workv1.ManifestWork)) *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
		Namespace: "cluster1", Name: "job", UID: "u", ResourceVersion: "7", CreationTimestamp: at(0), Generation: 3,
		Annotations: map[string]string{"large": "annotation"},
	}}
	work.Spec.DeleteOption = &workv1.DeleteOption{TTLSecondsAfterFinished: ptr.To[int64](50)}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(`{"large":"manifest"}`)}}}
	work.Status.Conditions = []metav1.Condition{
		{Type: "Applied", Status: metav1.ConditionTrue, LastTransitionTime: at(1)},
		complete(metav1.ConditionTrue, 100),
	}
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{}}
	for _, change := range changes {
		change(work)
	}
	return work
}

func complete(status metav1.ConditionStatus, second int) metav1.Condition {
	return metav1.Condition{
		Type: workv1.ManifestWorkConditionComplete, Status: status, LastTransitionTime: at(second),
		Reason: "ConditionRulesAggregated", Message: "all manifests are complete",
	}
}

func TestWorksAreDueWhenTheirTimeToLiveIsOver(t *testing.T) {
	never := time.Time{}
	for name, test := range map[string]struct {
		reason string
		change func(*workv1.ManifestWork)
		want   time.Time
	}{
		"Finished": {"the time counts from the end", func(*workv1.ManifestWork) {}, at(150).Time},
		"AtOnce":   {"0 is at once", func(w *workv1.ManifestWork) { w.Spec.DeleteOption.TTLSecondsAfterFinished = ptr.To[int64](0) }, at(100).Time},
		"NoTTL":    {"most works stay", func(w *workv1.ManifestWork) { w.Spec.DeleteOption.TTLSecondsAfterFinished = nil }, never},
		"NoOption": {"the whole option may be missing", func(w *workv1.ManifestWork) { w.Spec.DeleteOption = nil }, never},
		"Negative": {"a time that makes no sense must not delete", func(w *workv1.ManifestWork) { w.Spec.DeleteOption.TTLSecondsAfterFinished = ptr.To[int64](-1) }, never},
		"ForEver": {"the sum must not overflow to the past", func(w *workv1.ManifestWork) {
			w.Spec.DeleteOption.TTLSecondsAfterFinished = ptr.To[int64](math.MaxInt64)
		}, never},
		"Unfinished": {"no condition, no end", func(w *workv1.ManifestWork) { w.Status.Conditions = w.Status.Conditions[:1] }, never},
		"NotAnyMore": {"a work that goes on has not finished", func(w *workv1.ManifestWork) { w.Status.Conditions[1] = complete(metav1.ConditionFalse, 100) }, never},
		"Unknown":    {"nobody knows whether it has finished", func(w *workv1.ManifestWork) { w.Status.Conditions[1] = complete(metav1.ConditionUnknown, 100) }, never},
		"Again":      {"it finished for a second time", func(w *workv1.ManifestWork) { w.Status.Conditions[1] = complete(metav1.ConditionTrue, 500) }, at(550).Time},
		"ClockBehind": {
			"the clock of the member is two hours behind", func(w *workv1.ManifestWork) { w.Status.Conditions[1] = complete(metav1.ConditionTrue, -7200) }, at(50).Time,
		},
		"Deleting": {"once is enough", func(w *workv1.ManifestWork) { w.DeletionTimestamp = ptr.To(at(101)) }, never},
		"ReplicaSet": {
			"its replica set would make it again", func(w *workv1.ManifestWork) {
				w.Labels = map[string]string{workv1.LabelManifestWorkReplicaSet: "default.jobs"}
			}, never,
		},
		"Binding": {
			"the binding would have it made again", func(w *workv1.ManifestWork) {
				w.Annotations = map[string]string{workv1alpha2.AnnotationResourceBindingNamespace: "default", workv1alpha2.AnnotationResourceBindingName: "jobs"}
			}, never,
		},
		"ClusterResourceBinding": {
			"so would one without a namespace", func(w *workv1.ManifestWork) {
				w.Annotations = map[string]string{workv1alpha2.AnnotationClusterResourceBindingName: "jobs"}
			}, never,
		},
		"Namespace": {
			"the namespace would be sent again", func(w *workv1.ManifestWork) {
				w.Name = deliver.NamespaceWorkName("shop")
				w.Labels = map[string]string{deliver.LabelNamespace: "shop"}
			}, never,
		},
	} {
		t.Run(name, func(t *testing.T) {
			work := finished(test.change)
			got, ends := DeletionTime(work)
			if !got.Equal(test.want) || ends != !test.want.IsZero() {
				t.Errorf("%s: got %s, %t, want %s", test.reason, got, ends, test.want)
			}
			trimmed, err := SlimExpiringWork(work)
			if err != nil {
				t.Fatal(err)
			}
			if fromCache, _ := DeletionTime(trimmed.(*workv1.ManifestWork)); !fromCache.Equal(got) {
				t.Errorf("what the cache keeps must decide the same: got %s, want %s", fromCache, got)
			}
		})
	}
}

func TestTheCacheKeepsNoManifests(t *testing.T) {
	for name, test := range map[string]struct {
		work *workv1.ManifestWork
		want *workv1.ManifestWork
	}{
		"with a time to live": {
			work: finished(),
			want: &workv1.ManifestWork{
				ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "job", UID: "u", ResourceVersion: "7", CreationTimestamp: at(0)},
				Spec:       workv1.ManifestWorkSpec{DeleteOption: &workv1.DeleteOption{TTLSecondsAfterFinished: ptr.To[int64](50)}},
				Status: workv1.ManifestWorkStatus{Conditions: []metav1.Condition{
					{Type: workv1.ManifestWorkConditionComplete, Status: metav1.ConditionTrue, LastTransitionTime: at(100)},
				}},
			},
		},
		"without one": {
			work: finished(func(w *workv1.ManifestWork) { w.Spec.DeleteOption = nil }),
			want: &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "job", UID: "u", ResourceVersion: "7"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := SlimExpiringWork(test.work)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("in the cache (-want +got):\n%s", diff)
			}
		})
	}
}
